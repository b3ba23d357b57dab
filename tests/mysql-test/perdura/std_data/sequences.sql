-- SEQUENCE objects: the same in InnoDB and in Perdura.

create sequence s;
select nextval(s), next value for s, lastval(s), previous value for s;
select * from s;
select setval(s, 5000), nextval(s);
select setval(s, 10), nextval(s);
select setval(s, 7000, 0), nextval(s);
select setval(s, 8000, 1, 2), nextval(s);
select * from s;
insert into s values (1, 1, 100, 1, 1, 10, 1, 0);
select nextval(s) from seq_1_to_5;
select * from s;
insert into s values (1, 5, 3, 1, 1, 10, 1, 0);
insert into s values (1, 1, 100, 1, 1, 10, 1, 0), (50, 1, 100, 50, 5, 2, 1, 0);
select nextval(s), nextval(s);
update s set next_not_cached_value = 7;
delete from s;
truncate s;
select count(*) from s where increment = 5;
select * from s order by next_not_cached_value desc;
select a.increment, b.increment from s a, s b;
drop sequence s;
drop sequence s;
drop sequence if exists s;

-- Ranges, caches, cycles.
create sequence c start with 1 minvalue 1 maxvalue 5 increment by 2 cache 2 cycle;
select nextval(c) from seq_1_to_8;
select * from c;
alter sequence c nocycle restart;
select nextval(c);
select nextval(c);
select nextval(c);
select nextval(c);
select * from c;
alter sequence c maxvalue 100;
select nextval(c);
alter sequence c minvalue 50;
alter sequence c increment by -3 minvalue -100 restart 20;
select nextval(c) from seq_1_to_4;
create sequence n nocache;
select nextval(n) from seq_1_to_3;
select * from n;
create sequence z increment 0;
select nextval(z), nextval(z);
create sequence d increment -1;
select nextval(d) from seq_1_to_3;
create sequence w start 10 minvalue 20;
create sequence w maxvalue 9223372036854775807;
create sequence big start with 9223372036854775800 cache 3;
select nextval(big), nextval(big), nextval(big), nextval(big);
select nextval(big), nextval(big), nextval(big), nextval(big);

-- Names and definitions.
show full tables like '_';
select table_name, table_type, table_rows from information_schema.tables where table_schema = 'test' and table_name = 'n';
create sequence n;
create sequence if not exists n;
create or replace sequence n start 30;
select nextval(n);
rename table n to m;
select nextval(m);
alter table m rename to n;
select nextval(n);
alter table n comment 'kept';
select nextval(n), (select table_comment from information_schema.tables where table_schema = 'test' and table_name = 'n') as comment;
alter table n add column x int;
alter table n add key (cache);
alter table n auto_increment = 5;
create table like_n like n;
drop table if exists like_n;
create table selected select * from n;
select * from selected;
drop sequence selected;
drop table selected;
create table t_s (next_not_cached_value bigint(21) not null, minimum_value bigint(21) not null, maximum_value bigint(21) not null,
  start_value bigint(21) not null, increment bigint(21) not null, cache_size bigint(21) unsigned not null,
  cycle_option tinyint(1) unsigned not null, cycle_count bigint(21) not null) sequence=1;
select nextval(t_s);
alter table t_s sequence=0;
select * from t_s;
alter table t_s sequence=1;
select nextval(t_s);
drop table t_s;
create table keyed (a int primary key) sequence=1;
create sequence p partition by hash (cache) partitions 2;
alter sequence nowhere restart;
select nextval(nowhere);
create table plain (a int);
select nextval(plain);
drop sequence plain;
drop table n, plain;
show tables;
flush tables;
select nextval(c);
check table c;
optimize table c;
analyze table c;
checksum table c;

-- A sequence of a connection.
create temporary sequence c start 1000;
select nextval(c), nextval(c);
alter sequence c restart 5000;
select nextval(c);
select * from c;
drop temporary sequence c;
select nextval(c);

-- Transactions.
set autocommit = 0;
create table t (a bigint default nextval(d), b int);
select nextval(z);
insert into t (b) values (1), (2);
rollback;
insert into t (b) values (3);
savepoint sp;
insert into t (b) values (4);
rollback to sp;
commit;
select * from t;
select previous value for d;
set autocommit = 1;
drop sequence d;
insert into t (b) values (5);
drop table t;
create table t (a bigint default next value for z primary key, b int unique);
insert into t (b) values (1);
insert into t (b) values (1);
insert ignore into t (b) values (1), (2);
replace into t (b) values (2);
insert into t (b) values (2) on duplicate key update a = nextval(z);
update t set b = nextval(z) where b = 1;
select * from t order by a;
start transaction read only;
select nextval(z);
commit;
set session transaction isolation level serializable;
begin;
select nextval(z), count(*) from t;
rollback;
select nextval(z) > 0;
set session transaction isolation level repeatable read;

-- Routines, views, triggers, prepared statements.
delimiter //
create function next_z() returns bigint begin return nextval(z); end//
create procedure several(n int) begin while n > 0 do insert into t values (nextval(z), n * 100); set n = n - 1; end while; end//
create trigger tr before insert on t for each row set new.b = coalesce(new.b, nextval(z) * 1000)//
delimiter ;
select next_z() - next_z();
call several(3);
insert into t (a) values (-1);
select * from t order by a;
create view v as select nextval(z) as x;
select x > 0 from v;
prepare p from 'select nextval(z) - previous value for z';
execute p;
execute p;
lock tables z write, t write;
select nextval(z) > 0;
insert into t (b) values (7);
alter sequence z restart 1000;
select nextval(z);
select nextval(c);
unlock tables;
lock tables t write;
insert into t (b) values (9);
unlock tables;
lock tables z read;
select * from z;
select nextval(z);
select previous value for z;
unlock tables;
xa start 'x';
select nextval(z);
insert into t (b) values (8);
xa end 'x';
xa prepare 'x';
xa rollback 'x';
select nextval(z);
drop function next_z;
drop procedure several;
drop view v;
drop table t;

-- Between engines.
select * from c;
alter table c engine = Aria;
select nextval(c);
alter sequence c engine = InnoDB;
select nextval(c);
alter table c engine = Perdura;
select nextval(c);
select * from c;
drop sequence c, z, big;
drop table m;
drop sequence if exists w;
show tables;
