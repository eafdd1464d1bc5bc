create table accounts (id bigint generated always as identity primary key, owner text not null, balance numeric(12, 2) not null default 0);
create index accounts_owner on accounts (owner);
