alter table accounts add column currency char(3) not null default 'EUR';
