-- The schema of all golden files: pgbench's, TPC-C's, and tables for corner cases.
create table pgbench_branches (bid int not null primary key, bbalance int, filler char(88)) with (fillfactor=100);
create table pgbench_tellers (tid int not null primary key, bid int, tbalance int, filler char(84)) with (fillfactor=100);
create table pgbench_accounts (aid int not null primary key, bid int, abalance int, filler char(84)) with (fillfactor=100);
create table pgbench_history (tid int, bid int, aid int, delta int, mtime timestamp, filler char(22));
create table warehouse (w_id int primary key, w_name varchar(10), w_tax numeric(4,4), w_ytd numeric(12,2) not null);
create table district (d_w_id int, d_id int, d_name varchar(10), d_tax numeric(4,4), d_ytd numeric(12,2), d_next_o_id int,
  primary key (d_w_id, d_id));
create table customer (c_w_id int, c_d_id int, c_id int, c_last varchar(16), c_first varchar(16), c_balance numeric(12,2),
  c_credit char(2), c_data varchar(500), primary key (c_w_id, c_d_id, c_id));
create index customer_name on customer (c_w_id, c_d_id, c_last, c_first);
create table orders (o_w_id int, o_d_id int, o_id int, o_c_id int, o_entry_d timestamp, o_carrier_id int, o_ol_cnt int,
  primary key (o_w_id, o_d_id, o_id));
create unique index orders_customer on orders (o_w_id, o_d_id, o_c_id, o_id);
create table new_order (no_w_id int, no_d_id int, no_o_id int, primary key (no_w_id, no_d_id, no_o_id));
create table order_line (ol_w_id int, ol_d_id int, ol_o_id int, ol_number int, ol_i_id int, ol_amount numeric(6,2),
  ol_quantity int, primary key (ol_w_id, ol_d_id, ol_o_id, ol_number));
create table stock (s_w_id int, s_i_id int, s_quantity int, s_ytd int, s_order_cnt int, s_dist varchar(24),
  primary key (s_w_id, s_i_id));
create table item (i_id int primary key, i_name varchar(24), i_price numeric(5,2));
create table wide (id bigserial primary key, small smallint, name text unique, code char(4), at timestamptz default now(),
  day date, note text, flag boolean not null default false, amount numeric(10,2) check (amount >= 0), u uuid);
create index wide_day on wide (day, small);
create table keyed (k char(4) primary key, v int);
create table narrow (a smallint, b int, c text, primary key (a, b));
create table parent (id int primary key, label text);
create table child (id int primary key, parent_id int references parent on delete cascade, x int);
create table ident (id int generated always as identity primary key, v text);
create table plain (x int, y text);
create table shop (id int primary key, qty int check (qty >= 0), part numeric(5,2) check (0 < part and part < 10), held numeric
  constraint held_bounds check (held between 0 and 100), reserved int, check (reserved <= qty + 5), sold int check (sold >= 0 and reserved >= 0), free int);
