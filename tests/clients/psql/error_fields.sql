-- Which schema, table, column, type and constraint an error is about.
create schema app;
create domain app.pos as int check (value > 0) not null;
create domain public.small as int check (value < 100);
create table app.orders (id serial primary key, n int not null, k int unique, p app.pos, d small, constraint big check (n < 1000));
create table app.lines (id int references app.orders, m text);
insert into app.orders values (1, null, 1, 1);
insert into app.orders values (1, 2000, 1, 1);
insert into app.orders values (1, 2, 1, 1), (1, 3, 2, 1);
insert into app.orders values (1, 2, 1, -1);
insert into app.orders values (1, 2, 1, null);
insert into app.orders values (1, 2, 1, 1, 200);
insert into app.orders values (1, 2, 1, 1);
insert into app.lines values (9);
insert into app.lines values (1);
delete from app.orders;
select (-5)::app.pos;
select null::app.pos;
select 200::small;
set search_path = app, public;
select (-5)::pos;
\d orders
set search_path = public;
\d app.orders
select column_default from information_schema.columns where table_name = 'orders' and column_name = 'id';
create table pub (id int primary key, s bigserial);
insert into pub values (1), (1);
\d pub
set search_path = app;
\d public.pub
insert into public.pub values (1), (1);
reset search_path;
insert into app.orders values (5, 5, 5, 5, 5);
alter domain small add constraint tiny check (value < 4);
alter table app.orders add constraint orders_n unique (n), add check (n < 3);
create unique index on app.lines (length(m), (id + 1));
insert into app.lines values (1, 'a'), (1, 'b');
create unique index lines_one on app.lines (id);
alter table app.lines alter m set not null;
create type mood as enum ('ok');
create materialized view kept as select 'ok'::mood as m;
create view seen as select 'ok'::mood as m;
drop type mood;
create type taste as enum ('ok');
create table feels (m taste);
drop type taste;
select '{1}'::int[], '{a}'::text[], cast('{1}' as numeric(5,2)[]), array[1]::int[];
