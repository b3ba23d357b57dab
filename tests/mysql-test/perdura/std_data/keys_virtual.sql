-- Virtual columns in keys, where the server leaves their computation to the engine, and sums that take the scan of the table.

-- Two indexes are merged by a scan of each for its own columns, then rows are read by position.
create table t (id int primary key, a int, v int as (id % 7) virtual, c longtext, x int as (length(c)) virtual, y varchar(20) as (concat('y', v)) virtual, key(a), key(v), key(y, a));
insert into t (id, a, c) select seq, seq % 11, repeat('c', seq) from seq_1_to_2000;
set optimizer_switch='index_merge_union=off,index_merge_sort_union=on';
select count(*) from t force index(a, v) where a < 3 or v < 3;
select sum(x), count(*) from t force index(a, v) where a < 3 or v < 3;
select count(*), sum(x) from t ignore index(a, v) where a < 3 or v < 3;
select count(*), sum(length(y)) from t force index(a, y) where a < 2 or y < 'y2';
set optimizer_switch=default;
select count(*) from t force index(a, v) where a = 3 and v = 3;
select count(*), sum(x) from t force index(a, v) where a = 3 and v = 3;

-- A sort of what a covering read found; rows by their positions, for which the read is not of the key alone any more.
select v, y from t force index(y) where y > 'y3' order by v desc, y, id limit 5;
select id, v, y, x from t force index(y) where y > 'y3' order by x desc limit 3;
select v, y, group_concat(id order by id desc) from t force index(y) where y > 'y5' and id < 50 group by v, y;
select id, x from t where v = 3 order by y desc, id limit 3;
update t set a = a + 1 where y = 'y3' order by v, id limit 5;
select sum(a) from t;
delete from t where v = 6 order by y, id limit 2;
select count(*) from t;

-- A subquery that looks keys up, and scans where it is asked for NULL.
create table b (id int primary key, y int, z varchar(20));
insert into b values (1, null, null), (2, 3, 'y3'), (3, 9, 'x');
set optimizer_switch='materialization=off,semijoin=off';
select id, y not in (select v from t force index(v)) from b;
select id, z not in (select y from t force index(y)) from b;
select id, y in (select v from t force index(v) where v is not null) from b;
select id, (y, z) in (select v, y from t) from b;
set optimizer_switch=default;
select id, y not in (select v from t force index(v)) from b;
select id, z not in (select y from t force index(y)) from b;
drop table b;

-- Joins by a virtual key, batched and not.
set join_cache_level=8, optimizer_switch='join_cache_hashed=on,join_cache_bka=on,mrr=on,mrr_cost_based=off';
select count(*), sum(y.x), sum(y.v) from t x join t y force index(v) on y.v = x.a where x.id < 20;
select count(*), sum(length(y.y)) from t x join t y force index(y) on y.y = x.y and y.a = x.a where x.id < 200;
set join_cache_level=default, optimizer_switch=default;
select count(*), sum(y.x), sum(y.v) from t x join t y force index(v) on y.v = x.a where x.id < 20;
select max(v), min(y) from t;
select v, count(*) from t group by v;
select distinct y from t force index(y);
begin;
select id, v from t force index(v) where v = 4 order by id limit 2 for update;
update t set c = 'short' where v between 4 and 5 order by id limit 4;
select sum(x) from t;
update t set id = id + 10000 where y = 'y1' order by id limit 3;
select count(*), sum(v), sum(length(y)), sum(x) from t;
rollback;
replace into t (id, a, c) values (5, 5, 'five'), (3000, 1, 'new');
insert into t (id, a, c) values (5, 5, 'five') on duplicate key update a = v + 100, c = concat(y, c);
select * from t where id in (5, 3000);
delete x from t x join t y force index(y) on x.id = y.id where y.y = 'y0' and x.id < 30;
select count(*), sum(v), sum(length(y)), sum(x) from t;
drop table t;

-- A long unique key is one of a virtual column too.
create table t (id int primary key, c longtext, v longtext as (concat(c, id div 2)) virtual, unique key(v));
insert into t (id, c) values (1, 'a'), (3, 'a'), (4, 'b'), (6, 'b');
insert into t (id, c) values (2, 'a');
insert into t (id, c) values (5, 'b');
insert ignore into t (id, c) values (5, 'b'), (7, 'b');
update t set id = 2 where id = 3;
update t set c = 'b' where id < 4;
replace into t (id, c) values (2, 'b');
select id, c, v from t order by id;
select id from t where v = 'b2';
drop table t;

-- Reads raise no warnings for columns that they do not show, nor for those of a key.
set sql_mode='error_for_division_by_zero';
create table n (id int primary key, b int, v int as (100 div b) virtual, k int, u int as (id % 5) virtual, key(k), key(u), key(v));
insert into n (id, b, k) values (1, 0, 1), (2, 5, 2), (3, 0, 3);
select sum(u) from n;
show warnings;
select sum(v), count(v), count(*) from n;
show warnings;
select count(*) from n force index(u, v) where u = 1 or v = 20;
show warnings;
select v from n force index(v) where v is null;
show warnings;
select k from n force index(u) where u = 1 for update;
show warnings;
select u, k from n force index(u) where u > 0 for update;
show warnings;
update n set k = k + 1 where u = 3;
show warnings;
check table n;
show warnings;
alter table n add key (u, k), algorithm=inplace;
show warnings;
alter table n add unique key w (u, v), algorithm=inplace;
show warnings;
set sql_mode=default;
drop table n;

-- What shows in which order rows come.
set sql_mode='';
create table n (id int primary key, k int, key(k));
insert into n select seq, 1000 - seq from seq_1_to_500;
create function next_of(x int) returns int no sql return (@n:= @n + x);
select k, sum(k) from n;
set @i= 0;
select sum(k * (@i:= @i + 1)) from n;
set @i= 0;
select sum(k) from n where (@i:= @i + 1) <= 10;
select sum(k) from n where rownum() <= 10;
select sum(k * rownum()) from n;
set @n= 0;
select sum(k * next_of(1)) from n;
create sequence s engine=innodb;
select sum(k * nextval(s)) from n;
select @last:= k, count(k) from n;
select sum(k) from n limit rows examined 100;
select sum(k) from (select k from n limit 10) x;
select sum(k), count(k), avg(k) from n where k % 3 = 0;
select (select sum(n.k + b.id) from n) from n b where b.id < 3;
create table m (id int primary key, x int);
insert into m select seq, seq from seq_1_to_1000;
select sum(k), (select m.x from m where m.id = n.k) from n;
select sum(n.k), exists (select 1 from m where m.id = n.k and m.x > 900) from n;
select sum(k) from n having exists (select 1 from m where m.id = n.k and m.x > 900);
drop table m;
create view w as select k, floor(rand(5) * 100) as r from n;
select sum(k * r) from w;
select sum(k) from w;
drop view w;
select sum(k) + 1, concat(count(k), '') from n having sum(k) > 10;
handler n open;
handler n read k first;
handler n read k next;
handler n read k last;
handler n close;
drop sequence s;
drop function next_of;
drop table n;
set sql_mode=default;
