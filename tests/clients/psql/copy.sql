-- COPY in and out, as text and as csv, through psql's \copy.
create table line (id int primary key, label text, amount numeric(8,2), at date);
\copy line from stdin
1	one	1.50	2024-01-01
2	tab\there	\N	2024-01-02
3	\N	3	\N
4	back\\slash	4.25	2024-01-04
\.
copy line to stdout;
\copy line (id, label) to stdout with (format csv, header)
\copy line (id, label, amount) from stdin with (format csv)
5,"a, b",5.5
6,"she said ""no""",
7,,7
\.
\copy line from stdin with (format csv, header, delimiter ';', null 'none')
id;label;amount;at
8;none;8.00;2024-01-08
\.
select * from line order by id;
copy line to stdout with (format csv, null '-', delimiter '|');
\copy line from stdin
9	nine	9	2024-01-09
10	ten	x	2024-01-10
\.
\copy line from stdin
11	eleven
\.
\copy line from stdin
12	twelve	1	2024-01-10	more
\.
\copy line from stdin
13	thirteen	1	2024-01-13
1	again	1	2024-01-10
\.
\copy line from stdin with (format csv)
14,"never closed
\.
\copy line from stdin
15	fifteen	123456789	2024-01-10
\.
select count(*) from line where id > 8;
\copy nowhere from '/dev/null'
\copy line (id, nothing) from '/dev/null'
copy line to stdout with (format xml);
begin;
\copy line from stdin
20	twenty	1	2024-01-20
\.
rollback;
select count(*) from line where id = 20;

create table chosen (a int not null, b text default 'd', n int check (n > 0));
\copy chosen (a, b) from stdin where a > 1
1	x
2	y
3	z
\.
\copy chosen (a, n) from stdin where n > 0
1	-5
\N	0
5	7
\.
\copy chosen (a, n) from stdin where a is not null
\N	1
6	1
\.
\copy chosen (a, b) from stdin with (format csv, header) where b like 'q%' and chosen.n is null
a,b
7,qq
8,r
9,qr
\.
\copy chosen (a) from stdin where b = 'd' and 10 / a > 1
1
0
\.
\copy chosen from '/dev/null' where count(*) > 1
\copy chosen from '/dev/null' where a
\copy chosen from '/dev/null' where nothing = 1
\copy chosen from '/dev/null' where a = 1 and
copy chosen to stdout where a = 1;
copy (select 1) to stdout where true;
select * from chosen order by a;
drop table line, chosen;
