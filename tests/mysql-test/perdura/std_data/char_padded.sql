SET NAMES utf8mb4;
CREATE TABLE t1 (id INT PRIMARY KEY, a CHAR(20) CHARACTER SET utf8mb4, b CHAR(1) CHARACTER SET utf8mb4 NOT NULL DEFAULT 'x',
  c CHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin NOT NULL, d CHAR(60) CHARACTER SET utf8mb3, e CHAR(10) CHARACTER SET sjis,
  f CHAR(30) CHARACTER SET latin1, g CHAR(0), h BINARY(12), i CHAR(8) CHARACTER SET ucs2, j VARCHAR(40) CHARACTER SET utf8mb4,
  v CHAR(24) CHARACTER SET utf8mb4 AS (CONCAT(RTRIM(a), '.')) VIRTUAL, w VARCHAR(80) CHARACTER SET utf8mb4 AS (CONCAT('[', j, ']')) STORED,
  KEY a (a), KEY c5 (c(5)), UNIQUE ac (a(4), id), KEY d (d, b), KEY v (v)) CHARACTER SET utf8mb4;
INSERT INTO t1 (id, a, b, c, d, e, f, g, h, i, j) VALUES
  (1, 'short', 'a', 'c', 'd', 'e', 'f', '', 'h', 'i', 'j'),
  (2, '', '', '', '', '', '', '', '', '', ''),
  (3, '   ', ' ', '   ', ' ', ' ', ' ', ' ', '   ', ' ', '   '),
  (4, NULL, 'n', '', NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (5, REPEAT('w', 20), 'w', REPEAT('w', 255), REPEAT('w', 60), REPEAT('w', 10), REPEAT('w', 30), '', REPEAT('w', 12), REPEAT('w', 8), REPEAT('w', 40)),
  (6, REPEAT('😀', 20), '😀', REPEAT('😀', 255), REPEAT('語', 60), REPEAT('語', 10), 'é', '', 0x2020, REPEAT('語', 8), REPEAT('😀', 40)),
  (7, 'trailing   ', 'b', ' both ', 'in  side  ', 'x  ', 'y  ', '', 0x7800202020, 'z  ', 'kept   '),
  (8, '\t', '\t', '\t \t ', 'tab\t', 'tab\t', 'tab\t', '', 'tab\t', 'tab\t', 'tab\t');
SELECT id, HEX(a), HEX(b), HEX(c), HEX(d), HEX(e), HEX(f), HEX(g), HEX(h), HEX(i), HEX(j), HEX(v), HEX(w) FROM t1 ORDER BY id;
SET sql_mode='PAD_CHAR_TO_FULL_LENGTH';
SELECT id, CHAR_LENGTH(a), CHAR_LENGTH(b), CHAR_LENGTH(c), CHAR_LENGTH(d), CHAR_LENGTH(e), CHAR_LENGTH(f), CHAR_LENGTH(i) FROM t1 ORDER BY id;
SET sql_mode=DEFAULT;
-- some columns alone, by each key, and by the key alone
SELECT id, d FROM t1 ORDER BY id;
SELECT f, id FROM t1 WHERE id BETWEEN 3 AND 7 ORDER BY id;
SELECT id, HEX(c) FROM t1 WHERE id = 7;
SELECT id, a FROM t1 FORCE INDEX (a) WHERE a = 'trailing';
SELECT id, HEX(a) FROM t1 FORCE INDEX (a) WHERE a < 'short' ORDER BY a, id;
SELECT id FROM t1 FORCE INDEX (c5) WHERE c LIKE 'wwwwww%';
SELECT id FROM t1 FORCE INDEX (c5) WHERE c = '';
SELECT id, a FROM t1 FORCE INDEX (ac) WHERE a LIKE 'ww%';
SELECT id, HEX(d), HEX(b) FROM t1 FORCE INDEX (d) WHERE d IS NULL OR d = '' ORDER BY id;
SELECT id, v FROM t1 FORCE INDEX (v) WHERE v = 'short.';
-- a text grows to its width, shrinks, becomes NULL, comes back
UPDATE t1 SET a = REPEAT('g', 20), c = REPEAT('😀', 250) WHERE id IN (1, 2);
UPDATE t1 SET a = 'less', c = '', d = NULL WHERE id IN (5, 6);
UPDATE t1 SET a = 'back', d = REPEAT('語', 59) WHERE id IN (4, 5);
UPDATE t1 SET b = ' ' WHERE id = 1;
UPDATE t1 SET a = CONCAT(a, '   ') WHERE id = 7;
UPDATE t1 SET a = 'x' WHERE id = 3 AND a = '';
SELECT id, HEX(a), HEX(b), LENGTH(c), MD5(c), LENGTH(d), HEX(v) FROM t1 ORDER BY id;
DELETE FROM t1 WHERE a = 'less';
INSERT INTO t1 (id, a, c) VALUES (1, 'dup', 'x') ON DUPLICATE KEY UPDATE a = CONCAT('dup', id), c = '  ';
REPLACE INTO t1 (id, a, b, c, j) VALUES (2, 'replaced', 'r', REPEAT('r', 255), 'r ');
SELECT id, HEX(a), HEX(b), MD5(c), HEX(j) FROM t1 ORDER BY id;
-- one that rolls back, in a savepoint and as a whole
BEGIN;
UPDATE t1 SET c = REPEAT('b', 255);
SAVEPOINT one;
UPDATE t1 SET c = '', a = NULL;
ROLLBACK TO one;
SELECT COUNT(*) FROM t1 WHERE c = REPEAT('b', 255) AND a IS NOT NULL;
ROLLBACK;
SELECT id, HEX(a), MD5(c) FROM t1 ORDER BY id;
-- other widths and character sets, other tables
ALTER TABLE t1 ADD KEY e (e), ALGORITHM=INPLACE;
SELECT id FROM t1 FORCE INDEX (e) WHERE e = 'x';
ALTER TABLE t1 MODIFY f CHAR(30) CHARACTER SET utf8mb4, MODIFY d CHAR(70) CHARACTER SET utf8mb4, MODIFY h CHAR(12) CHARACTER SET latin1;
ALTER TABLE t1 DROP COLUMN w, MODIFY j CHAR(41) CHARACTER SET utf8mb4, DROP COLUMN g, ADD COLUMN k CHAR(40) CHARACTER SET utf8mb4 NOT NULL DEFAULT ' k ' AFTER id;
SELECT id, HEX(k), HEX(a), HEX(d), HEX(e), HEX(f), HEX(h), HEX(i), HEX(j) FROM t1 ORDER BY id;
CREATE TEMPORARY TABLE t2 AS SELECT id, a, c FROM t1;
INSERT INTO t2 SELECT id + 100, REPEAT('t', 20), CONCAT(id, ' ') FROM t1;
UPDATE t2 SET a = REPEAT('語', 19) WHERE id > 105;
SELECT id, HEX(a), MD5(c) FROM t2 ORDER BY id;
CREATE TABLE t3 (id INT, a CHAR(50) CHARACTER SET utf8mb4, PRIMARY KEY (id)) PARTITION BY HASH (id) PARTITIONS 3;
INSERT INTO t3 SELECT id, a FROM t2;
SELECT id, HEX(a) FROM t3 ORDER BY id;
-- many rows at once, which shrink and grow
CREATE TABLE t4 (id INT PRIMARY KEY, a CHAR(100) CHARACTER SET utf8mb4, b CHAR(20) CHARACTER SET utf8mb4 NOT NULL, KEY (b));
INSERT INTO t4 SELECT seq, REPEAT(CHAR(97 + seq % 26), seq % 101), CONCAT('b', seq % 7, '  ') FROM seq_1_to_5000;
INSERT INTO t4 SELECT seq, IF(seq % 3, NULL, REPEAT('語', seq % 101)), '' FROM seq_5001_to_7000;
UPDATE t4 SET a = REPEAT('y', (id * 7) % 101) WHERE id % 3 = 0;
UPDATE t4 SET a = CONCAT(a, '  '), b = CONCAT(b, 'b') WHERE id % 5 = 0;
SELECT COUNT(*), COUNT(a), SUM(LENGTH(a)), SUM(CRC32(a)), SUM(CRC32(b)), SUM(LENGTH(b)) FROM t4;
SELECT b, COUNT(*), SUM(CRC32(a)) FROM t4 GROUP BY b ORDER BY b;
CHECK TABLE t1, t3, t4;
DROP TABLE t1, t3, t4;
