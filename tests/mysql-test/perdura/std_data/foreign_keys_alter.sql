-- ALTER TABLE keeps the keys that are there, by a copy and in place.
create table p (id int primary key, u int, key (u));
create table c (a int, b int, key (a), foreign key (a) references p (id), constraint k foreign key (b) references p (u) on delete cascade);
insert into p values (1, 10), (2, 20), (3, 30);
insert into c values (1, 10), (2, 20);
delimiter //
create procedure keys_of(name varchar(64))
begin
  select constraint_name, column_name, referenced_table_name, referenced_column_name from information_schema.key_column_usage
    where table_schema = database() and table_name = name and referenced_table_name is not null order by 1, ordinal_position;
end//
delimiter ;
alter table c add column d int, algorithm=copy;
call keys_of('c');
insert into c values (9, 10, 1);
alter table c add index (d), drop column d, algorithm=copy;
alter table c comment 'x';
alter table c force;
optimize table c;
call keys_of('c');
insert into c values (1, 11);
delete from p where id = 2;
alter table p add column w int, algorithm=copy;
delete from p where id = 2;
insert into c values (5, 10);
alter table p force;
insert into c values (3, 10);
call keys_of('c');

-- ADD and DROP.
alter table c drop foreign key nobody;
alter table c drop foreign key if exists nobody;
alter table c drop foreign key k;
call keys_of('c');
insert into c values (3, 99);
alter table c add foreign key (b) references p (u);
delete from c where b = 99;
alter table c add foreign key (b) references p (u);
call keys_of('c');
alter table c add foreign key (b) references p (u), add constraint z foreign key (a) references p (id);
call keys_of('c');
alter table c drop foreign key c_ibfk_2, drop foreign key z;
alter table c add foreign key (a) references p (id);
call keys_of('c');
alter table c drop foreign key c_ibfk_3;
alter table c add constraint c_ibfk_1 foreign key (b) references p (u);
alter table c add foreign key (b) references p (u), algorithm=inplace;
set foreign_key_checks = 0;
alter table c add foreign key (b) references p (u), algorithm=inplace;
alter table c add constraint later foreign key (b) references later (id), algorithm=inplace;
set foreign_key_checks = 1;
call keys_of('c');
insert into c values (1, 10);
alter table c drop foreign key later, algorithm=inplace;
insert into c values (1, 10);
alter table c drop constraint c_ibfk_4;
call keys_of('c');

-- Indexes and columns that keys need.
select index_name, seq_in_index, column_name from information_schema.statistics where table_schema = 'test' and table_name = 'c' order by 1, 2;
alter table c drop index a;
drop index a on c;
alter table p drop index u;
alter table c add foreign key (b) references p (u);
alter table p drop index u;
alter table p drop column id;
alter table c modify a bigint;
alter table p modify id bigint;
alter table c modify a int comment 'same';
alter table c add index aa (a);
alter table c drop index a;
call keys_of('c');
alter table c change a aa int, algorithm=inplace;
alter table p change id idd int, algorithm=inplace;
call keys_of('c');
insert into c (aa) values (77);
insert into c (aa) values (3);
delete from p where idd = 3;
alter table c drop foreign key c_ibfk_1, drop foreign key c_ibfk_5;
alter table c drop column aa;
call keys_of('c');
delete from p where idd = 3;

-- RENAME.
rename table c to c2, p to p2;
call keys_of('c2');
delete from p2;
insert into c2 values (44);
alter table c2 rename to c3;
call keys_of('c3');
create database other;
rename table p2 to other.p2;
insert into c3 values (44);
delete from other.p2;
select constraint_name, referenced_table_name, unique_constraint_schema from information_schema.referential_constraints where table_name = 'c3';
drop database other;
rename table other.p2 to p;
rename table c3 to c;
call keys_of('c');
create table other.child (b int, foreign key (b) references test.p (u) on delete cascade);
insert into other.child values (10);
delete from p where u = 10;
delete from c;
delete from p where u = 10;
select * from other.child;
truncate table p;
drop table p;
drop database other;
drop table p, c;
drop table if exists c, p;

-- Tables in any order.
set foreign_key_checks = 0;
create table c (a int, b int, foreign key (a) references p (id), foreign key (b) references c (a));
insert into c values (1, 1), (2, 9);
drop table if exists p;
create table p (id bigint primary key);
create table p (id int primary key);
set foreign_key_checks = 1;
create table p (id bigint primary key);
insert into c values (1, 1);
insert into p values (1);
insert into c values (1, 1);
drop table if exists p;
set foreign_key_checks = 0;
drop table if exists p;
set foreign_key_checks = 1;
insert into c values (1, 1);
create table p (id int, key (id));
insert into p values (1), (1), (null);
insert into c values (1, 1);
delete from p where id = 1 limit 1;
delete from p where id is null;
drop table c, p;

-- LIKE and SELECT.
create table p (id int primary key);
insert into p values (1), (2);
create table c (a int, foreign key (a) references p (id)) select 1 as a;
create table c2 like c;
call keys_of('c2');
create table c3 (a int, foreign key (a) references p (id)) select 3 as a;
create table c3 (a int, foreign key (a) references p (id)) select id as a from p;
select * from c3;
create or replace table c3 (a int, foreign key (a) references p (id));
call keys_of('c3');
create or replace table p (id int);
drop table c, c2, c3, p;

-- Under LOCK TABLES, in functions and triggers.
create table p (id int primary key);
create table c (a int, foreign key (a) references p (id) on delete cascade on update cascade);
create table d (a int, foreign key (a) references p (id));
create table log (what varchar(20));
create trigger t_c after delete on c for each row insert into log values ('never');
insert into p values (1), (2), (3), (4);
insert into c values (1), (2), (2);
lock tables p write;
update p set id = 20 where id = 2;
delete from p where id = 1;
insert into p values (1);
unlock tables;
select * from c order by a;
lock tables c write;
insert into c values (3);
insert into c values (33);
unlock tables;
delimiter //
create function removed(n int) returns int
begin
  delete from p where id = n;
  return row_count();
end//
create trigger t_p after insert on p for each row insert into c values (new.id)//
delimiter ;
insert into d values (3);
select removed(20);
select removed(3);
select * from c order by a;
insert into p values (50);
select * from c order by a;
select * from log;
drop function removed;
drop table log, d, c, p;

-- Kinds of columns.
create table p (a varchar(10) collate utf8mb4_general_ci, b decimal(10,2), d date, e char(5), f double, g bigint unsigned, h varbinary(8), i datetime(3), j enum('x','y'), k bit(9),
  key (a), key (b), key (d), key (e), key (f), key (g), key (h), key (i), key (j), key (k)) charset utf8mb4;
create table c (a varchar(20) collate utf8mb4_general_ci not null, foreign key (a) references p (a) on update cascade) charset utf8mb4;
create table c (a varchar(20) collate utf8mb4_general_ci, b decimal(10,2), d date, e varchar(5), f double, g bigint unsigned, h varbinary(8), i datetime(3), j enum('x','y'), k bit(9),
  foreign key (a) references p (a) on update cascade, foreign key (b) references p (b) on update cascade, foreign key (d) references p (d) on update cascade,
  foreign key (e) references p (e) on update cascade, foreign key (f) references p (f) on update cascade, foreign key (g) references p (g) on update cascade,
  foreign key (h) references p (h) on update cascade, foreign key (i) references p (i) on update cascade, foreign key (j) references p (j) on update cascade,
  foreign key (k) references p (k) on update cascade) charset utf8mb4;
insert into p values ('Abc', 1.50, '2020-01-02', 'ab', 1.5, 7, 'x', '2020-01-01 10:00:00.123', 'x', b'101'), (null, null, null, null, null, null, null, null, null, null);
insert into c values ('aBC  ', 1.5, '2020-01-02', 'AB ', 1.5, 7, 'x', '2020-01-01 10:00:00.123', 'x', b'101');
insert into c values ('abcd', 1.5, '2020-01-02', 'ab', 1.5, 7, 'x', '2020-01-01 10:00:00.123', 'x', b'101');
insert into c values ('abc', 1.51, '2020-01-02', 'ab', 1.5, 7, 'x', '2020-01-01 10:00:00.123', 'x', b'101');
insert into c values ('abc', 1.5, '2020-01-03', 'ab', 1.5, 7, 'x', '2020-01-01 10:00:00.123', 'x', b'101');
insert into c values ('abc', 1.5, '2020-01-02', 'ac', 1.5, 7, 'x', '2020-01-01 10:00:00.123', 'x', b'101');
insert into c values ('abc', 1.5, '2020-01-02', 'ab', 1.25, 7, 'x', '2020-01-01 10:00:00.123', 'x', b'101');
insert into c values ('abc', 1.5, '2020-01-02', 'ab', 1.5, 8, 'x', '2020-01-01 10:00:00.123', 'x', b'101');
insert into c values ('abc', 1.5, '2020-01-02', 'ab', 1.5, 7, 'X', '2020-01-01 10:00:00.123', 'x', b'101');
insert into c values ('abc', 1.5, '2020-01-02', 'ab', 1.5, 7, 'x', '2020-01-01 10:00:00.124', 'x', b'101');
insert into c values ('abc', 1.5, '2020-01-02', 'ab', 1.5, 7, 'x', '2020-01-01 10:00:00.123', 'y', b'101');
insert into c values ('abc', 1.5, '2020-01-02', 'ab', 1.5, 7, 'x', '2020-01-01 10:00:00.123', 'x', b'111');
update p set a = 'new', b = -3, d = '1999-12-31', e = 'zz', f = -0.5, g = 18446744073709551615, h = 'yy', i = '2021-01-01', j = 'y', k = b'110010001' where a is not null;
select a, b, d, rtrim(e), f, g, h, i, j, hex(k) from c;
update p set a = 'NEW' where a = 'new';
select a from c;
update p set a = null where a = 'new';
select a from c;
drop table c, p;

-- A table that is copied and gets another name in one statement.
create table p (id int primary key, up int, foreign key (up) references p (id));
create table c (a int, foreign key (a) references p (id) on delete cascade);
insert into p values (1, null), (2, 1);
insert into c values (1), (2), (2);
alter table p rename to q, add column z int first;
call keys_of('q');
call keys_of('c');
delete from q where id = 2;
select * from c;
insert into c values (2);
alter table c rename to d, add column y int, force;
call keys_of('d');
insert into d values (3, 3);
drop table d, q;
create table p (id int primary key);
create table c (a int, foreign key (a) references p (id));
create table o (a int, foreign key (a) references p (id), constraint other foreign key (a) references c (a));
alter table o force;
call keys_of('o');
drop table o, c, p;
drop procedure keys_of;

-- a name that another key has, with a copy and without
CREATE TABLE p (id INT PRIMARY KEY);
CREATE TABLE c (id INT PRIMARY KEY, CONSTRAINT k FOREIGN KEY (id) REFERENCES p (id));
ALTER TABLE c ADD CONSTRAINT k FOREIGN KEY (id) REFERENCES p (id);
SET foreign_key_checks=0;
ALTER TABLE c ADD CONSTRAINT k FOREIGN KEY (id) REFERENCES p (id), ALGORITHM=INPLACE;
SET foreign_key_checks=1;
DROP TABLE c, p;

-- a table gets the name that a foreign key waits for
SET foreign_key_checks=0;
CREATE TABLE c (a INT, KEY (a), FOREIGN KEY (a) REFERENCES p (id));
SET foreign_key_checks=1;
CREATE TABLE q (id BIGINT PRIMARY KEY);
RENAME TABLE q TO p;
DROP TABLE q;
CREATE TABLE q (id INT);
RENAME TABLE q TO p;
DROP TABLE q;
CREATE TABLE q (other INT PRIMARY KEY);
RENAME TABLE q TO p;
DROP TABLE q;
CREATE TABLE q (id INT PRIMARY KEY);
RENAME TABLE q TO p;
INSERT INTO c VALUES (1);
INSERT INTO p VALUES (1);
INSERT INTO c VALUES (1);
DROP TABLE c, p;

-- the same without checks
SET foreign_key_checks=0;
CREATE TABLE c (a INT, KEY (a), FOREIGN KEY (a) REFERENCES p (id));
CREATE TABLE q (id BIGINT PRIMARY KEY);
RENAME TABLE q TO p;
DROP TABLE q;
CREATE TABLE q (id INT);
RENAME TABLE q TO p;
DROP TABLE q;
CREATE TABLE q (other INT PRIMARY KEY);
RENAME TABLE q TO p;
DROP TABLE IF EXISTS q, p;
SET foreign_key_checks=1;
DROP TABLE c;
