-- Every type of this version: what goes in comes out, and what does not fit is refused by its SQLSTATE.
create table everything (
    id serial primary key,
    a_bool bool, a_int2 int2, a_int4 int4, a_int8 int8,
    a_numeric numeric, a_money numeric(12,2), a_float4 float4, a_float8 float8,
    a_text text, a_varchar varchar(5), a_char char(4), a_bytea bytea,
    a_date date, a_timestamp timestamp, a_timestamptz timestamptz, a_uuid uuid
);
set timezone = 'UTC';
insert into everything (a_bool, a_int2, a_int4, a_int8, a_numeric, a_money, a_float4, a_float8, a_text, a_varchar, a_char, a_bytea, a_date, a_timestamp, a_timestamptz, a_uuid)
values (true, -32768, 2147483647, -9223372036854775808, 123456789012345678901234567890.123456789, 9999999999.99, 1.5, 0.1, 'naïve ☃', 'abcde', 'ab', '\xdeadbeef', '2024-02-29', '2024-02-29 23:59:59.999999', '2024-02-29 23:59:59+02', 'a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11');
insert into everything (a_bool) values (null);
insert into everything (a_numeric, a_float8, a_float4, a_date, a_timestamp) values ('NaN', 'Infinity', '-Infinity', '0001-01-01', '1999-12-31 00:00:00');
select id, a_bool, a_int2, a_int4, a_int8 from everything order by id;
select id, a_numeric, a_money, a_float4, a_float8 from everything order by id;
select id, a_text, a_varchar, a_char, a_bytea from everything order by id;
select id, a_date, a_timestamp, a_timestamptz, a_uuid from everything order by id;
select length(a_char), a_char || '|', a_varchar || '|' from everything where id = 1;
insert into everything (a_int2) values (32768);
insert into everything (a_int4) values (2147483648);
insert into everything (a_money) values (10000000000.00);
insert into everything (a_varchar) values ('abcdef');
insert into everything (a_char) values ('abcde');
insert into everything (a_bool) values ('perhaps');
insert into everything (a_int4) values ('12x');
insert into everything (a_date) values ('2023-02-29');
insert into everything (a_date) values ('soon');
insert into everything (a_uuid) values ('a0eebc99');
insert into everything (a_bytea) values ('\xZZ');
select 2147483647 + 1;
select 1 / 0;
select 10 / 4, 10 % 4, -7 / 2, 10.0 / 4, 2 * 3.50, 7::int8 * 6;
select 'abc' < 'abd', 1 <> 2, null = null, null is null, true and null, false or true;
select case when 1 < 2 then 'yes' else 'no' end, coalesce(null, 3), nullif(1, 1), greatest(1, 5, 3), least(4, 2);
select upper('abc'), lower('ABC'), length('☃'), substring('abcdef' from 2 for 3), trim('  x '), position('c' in 'abc'), 'a' || 'b';
select abs(-3), round(2.567, 2), floor(2.5), ceil(2.5), mod(10, 3), power(2, 10), sqrt(16);
select cast('42' as int), '3.25'::numeric, 7::text || '!', '2024-01-31'::date + 1, extract(year from date '2024-05-06');
select date '2024-03-01' - date '2024-02-01', date '2024-01-31' < date '2024-02-01';
select 'abc' like 'a%', 'abc' ilike 'A_C', 'abc' ~ '^a.c$', 'abc' not like '%z', 5 between 1 and 10, 3 in (1, 2, 3);
drop table everything;
select 1 from everything;
