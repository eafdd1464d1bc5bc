-- FOR UPDATE, NOWAIT and SKIP LOCKED as a second session sees them.
create table job (id int primary key, state text not null);
insert into job values (1, 'new'), (2, 'new'), (3, 'new');
begin;
select * from job where id = 1 for update;
\second select id from job where id = 1 for update nowait
\second select id from job where id = 2 for update nowait
\second select id from job order by id limit 2 for update skip locked
\second select state from job where id = 1
update job set state = 'done' where id = 1;
\second select state from job where id = 1
commit;
\second select state from job where id = 1
\second select id from job where id = 1 for update nowait
begin;
select id from job where state = 'new' order by id limit 1 for update skip locked;
\second select id from job where state = 'new' order by id limit 1 for update skip locked
rollback;
\second select id from job where state = 'new' order by id limit 1 for update skip locked
drop table job;
