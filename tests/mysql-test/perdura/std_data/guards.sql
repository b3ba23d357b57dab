-- Guards against statements that read or change too much, as an application or the mariadb client sets them: the engines
-- refuse the same statements. Run for two engines, whose output is compared.

CREATE TABLE c (id INT PRIMARY KEY, city INT, KEY (city));
CREATE TABLE o (id INT PRIMARY KEY, c_id INT NOT NULL, v INT, KEY (c_id));
INSERT INTO c SELECT seq, seq % 50 FROM seq_1_to_1000;
INSERT INTO o SELECT seq, 1 + seq % 1000, 0 FROM seq_1_to_10000;
ANALYZE TABLE c, o;

SELECT 'max_join_size';
SET max_join_size = 1000000;
SELECT COUNT(*) FROM c, o;
SELECT COUNT(*) FROM c, o WHERE c.id < o.v;
SELECT COUNT(*) FROM c JOIN o ON o.c_id = c.id;
SELECT COUNT(*) FROM c JOIN o ON o.c_id = c.id WHERE c.id = 7;
SELECT COUNT(*) FROM c, c AS d, c AS e WHERE c.city = d.city AND d.id = e.id;
SELECT COUNT(*) FROM o;
SET max_join_size = 5000;
SELECT COUNT(*) FROM o WHERE v = 0;
SELECT COUNT(*) FROM o WHERE id < 100;
SELECT COUNT(*) FROM o WHERE c_id = 5;
SELECT COUNT(*) FROM c JOIN o ON o.c_id = c.id WHERE c.city = 3;
SELECT COUNT(*) FROM c JOIN o ON o.c_id = c.id;
SELECT COUNT(*) FROM c WHERE id IN (SELECT c_id FROM o WHERE id < 20);
SELECT COUNT(*) FROM c LEFT JOIN o ON o.id = c.id;
UPDATE c, o SET o.v = 1 WHERE c.city = o.v;
UPDATE o SET v = 0;
SET sql_big_selects = 1;
SELECT COUNT(*) FROM c, c AS d;
SET max_join_size = 9;
SELECT COUNT(*) FROM c WHERE id = 1;
SELECT COUNT(*) FROM c;
SELECT COUNT(*) FROM c, o WHERE c.id = 1 AND o.id = 2;
SELECT COUNT(*) FROM c WHERE city = 1;
SET max_join_size = DEFAULT;

SELECT 'sql_select_limit';
SET sql_select_limit = 3;
SELECT id FROM c ORDER BY id DESC;
SELECT id FROM o WHERE c_id = 5 ORDER BY id;
SELECT id FROM c ORDER BY id LIMIT 4;
CREATE TABLE copied AS SELECT id FROM c;
SELECT COUNT(*) FROM copied;
INSERT INTO copied SELECT 5000 + id FROM c;
DELETE FROM copied WHERE id < 900;
SELECT COUNT(*) FROM copied;
SET sql_select_limit = DEFAULT;

SELECT 'sql_safe_updates';
SET sql_safe_updates = 1;
UPDATE o SET v = 2;
UPDATE o SET v = 2 WHERE v = 0;
UPDATE o SET v = 2 WHERE id > 0;
UPDATE o SET v = 3 WHERE c_id = 7;
UPDATE o SET v = 4 WHERE v = 3 LIMIT 2;
UPDATE o SET v = 5 WHERE c_id + 0 = 8;
UPDATE c, o SET o.v = 6 WHERE c.id = o.c_id;
UPDATE c, o SET o.v = 6 WHERE c.id = o.c_id AND c.id = 9;
DELETE FROM c;
DELETE FROM c WHERE city > 10;
DELETE FROM c WHERE city = 10;
DELETE FROM c WHERE id BETWEEN 5 AND 6 OR city = 11;
DELETE c FROM c, o WHERE c.id = o.v;
SELECT COUNT(*), SUM(id) FROM c;
SELECT v, COUNT(*) FROM o GROUP BY v ORDER BY v;
SET sql_safe_updates = DEFAULT;

SELECT 'sort_buffer_size';
SET sort_buffer_size = 1024, max_sort_length = 64;
SELECT id FROM o ORDER BY v, id DESC LIMIT 5;
SELECT city, id FROM c ORDER BY city DESC, id LIMIT 5;
SELECT c.id, o.id FROM c JOIN o ON o.c_id = c.id ORDER BY c.city, o.id LIMIT 5;
SELECT SUM(id) FROM (SELECT id FROM o ORDER BY v DESC LIMIT 5000) AS sorted;
UPDATE o SET v = id ORDER BY v, id DESC LIMIT 3;
SELECT id FROM o WHERE v > 100 ORDER BY id;
DROP TABLE c, o, copied;
