-- Reads that an index covers give the columns as the rows have them. Run for two engines, whose output is compared.

SET sql_mode='', time_zone='+00:00';
DELIMITER //
-- Every value through indexes that cover it, ascending, descending and behind another column, beside the rows.
CREATE OR REPLACE PROCEDURE try(type TEXT, vals TEXT)
BEGIN
  SELECT type;
  CREATE OR REPLACE SEQUENCE s ENGINE=InnoDB;
  EXECUTE IMMEDIATE CONCAT('CREATE OR REPLACE TABLE t (id INT DEFAULT NEXTVAL(s) PRIMARY KEY, c ', type,
    ', n ', type, ' NOT NULL, pad VARCHAR(20) DEFAULT "pad", KEY k (c, id), KEY r (c DESC, id DESC), KEY i (id, c), ',
    'KEY n (n), KEY d (n DESC, c, id))');
  EXECUTE IMMEDIATE CONCAT('INSERT INTO t (c) VALUES ', vals, ',(NULL)');
  UPDATE t SET n = c WHERE c IS NOT NULL;
  SELECT id, c, HEX(c) FROM t FORCE INDEX (k) ORDER BY c, id;
  SELECT id, c, HEX(c) FROM t FORCE INDEX (r) ORDER BY c DESC, id DESC;
  SELECT id, c, HEX(c) FROM t FORCE INDEX (i) ORDER BY id;
  SELECT n, HEX(n) FROM t FORCE INDEX (n) ORDER BY n;
  SELECT n, HEX(n), id, c, HEX(c) FROM t FORCE INDEX (d) ORDER BY n DESC, c, id;
  SELECT COUNT(*), COUNT(c), MIN(c), MAX(c), MIN(n), MAX(n) FROM t;
  SELECT n, COUNT(*) FROM t FORCE INDEX (n) GROUP BY n;
  SELECT DISTINCT c FROM t FORCE INDEX (k) ORDER BY c;
  FOR one IN (SELECT id FROM t ORDER BY id) DO
    SELECT one.id,
      (SELECT GROUP_CONCAT(id, ' ', HEX(c) ORDER BY id) FROM t FORCE INDEX (k) WHERE c = (SELECT x.c FROM t x WHERE x.id = one.id)) AS equal,
      (SELECT GROUP_CONCAT(id, ' ', HEX(c) ORDER BY id) FROM t FORCE INDEX (r) WHERE c < (SELECT x.c FROM t x WHERE x.id = one.id)) AS below,
      (SELECT GROUP_CONCAT(HEX(n) ORDER BY n) FROM t FORCE INDEX (n) WHERE n >= (SELECT x.n FROM t x WHERE x.id = one.id)) AS from_it,
      (SELECT COUNT(*) FROM t a FORCE INDEX (k) JOIN t b FORCE INDEX (d) ON b.n = a.c WHERE a.c = (SELECT x.n FROM t x WHERE x.id = one.id)) AS joined;
  END FOR;
  -- What the entries say and what the rows say.
  SELECT COUNT(*) AS differ FROM (SELECT id, HEX(c) AS h FROM t FORCE INDEX (k) ORDER BY c LIMIT 1000) AS e
    JOIN (SELECT id, HEX(c) AS h FROM t IGNORE INDEX (PRIMARY, k, r, i, n, d) LIMIT 1000) AS f ON f.id = e.id WHERE NOT f.h <=> e.h;
  -- Some columns of the index, and a condition on those that decides which rows are read.
  SELECT id, pad FROM t FORCE INDEX (k) WHERE c IS NOT NULL AND id % 2 = 1 ORDER BY c, id;
  SELECT id, pad, n FROM t FORCE INDEX (i) WHERE id > 1 AND c IS NULL;
  SELECT id, pad FROM t FORCE INDEX (d) WHERE n >= (SELECT x.n FROM t x WHERE x.id = 1) AND c > (SELECT x.c FROM t x WHERE x.id = 2) ORDER BY id;
END//
DELIMITER ;
CALL try('TINYINT', '(0),(-128),(127),(-1),(1)');
CALL try('TINYINT UNSIGNED', '(0),(128),(127),(255),(1)');
CALL try('SMALLINT', '(0),(-32768),(32767),(-1),(258)');
CALL try('MEDIUMINT', '(0),(-8388608),(8388607),(-1),(66051)');
CALL try('INT', '(0),(-2147483648),(2147483647),(-1),(16909060)');
CALL try('INT UNSIGNED', '(0),(2147483648),(4294967295),(1)');
CALL try('BIGINT', '(0),(-9223372036854775808),(9223372036854775807),(-1),(72623859790382856)');
CALL try('BIGINT UNSIGNED', '(0),(9223372036854775808),(18446744073709551615),(1)');
CALL try('DECIMAL(20,5)', '(0),(-0.00001),(0.00001),(-123456789012345.54321),(123456789012345.54321),(99.5)');
CALL try('DECIMAL(5,0)', '(0),(-99999),(99999),(7)');
CALL try('FLOAT', '(0),(-1.5),(1.5),(3.4e38),(-3.4e38),(1.2e-38),(1e-45),(-1e-45),(0.1)');
CALL try('DOUBLE', '(0),(-1.5),(1.5),(1.7e308),(-1.7e308),(2.3e-308),(5e-324),(-5e-324),(0.1)');
CALL try('YEAR', '(0),(1901),(2155),(1999)');
CALL try('DATE', '("0000-00-00"),("1000-01-01"),("9999-12-31"),("2024-02-29"),("2024-00-00")');
CALL try('TIME', '("00:00:00"),("-838:59:59"),("838:59:59"),("-00:00:01"),("12:34:56")');
CALL try('TIME(6)', '("00:00:00"),("-838:59:59.999999"),("838:59:59.999999"),("-00:00:00.000001"),("12:34:56.789")');
CALL try('DATETIME', '("0000-00-00 00:00:00"),("9999-12-31 23:59:59"),("2024-02-29 12:34:56")');
CALL try('DATETIME(3)', '("0000-00-00 00:00:00"),("9999-12-31 23:59:59.999"),("2024-02-29 12:34:56.789")');
CALL try('TIMESTAMP', '("2038-01-19 03:14:07"),("1970-01-01 00:00:01"),("2024-02-29 12:34:56")');
CALL try('TIMESTAMP(6)', '("2038-01-19 03:14:07.999999"),("1970-01-01 00:00:01"),("2024-02-29 12:34:56.789")');
CALL try('BIT(1)', "(b'0'),(b'1')");
CALL try('BIT(17)', "(b'0'),(b'1'),(b'11111111111111111'),(b'10000000000000000')");
CALL try('BIT(64)', "(b'0'),(b'1'),(0xffffffffffffffff),(0x8000000000000000)");
CALL try('ENUM("b","a","","c")', '("b"),("a"),(""),("c"),("nothing")');
CALL try('SET("b","a","c","d","e","f","g","h","i")', '(""),("a"),("a,b"),("b,i"),("i"),("c,d,e")');
CALL try('BINARY(5)', '(""),(0x00),("abc"),("abc  "),(0xffffffffff),(0x6100620000)');
CALL try('VARBINARY(20)', '(""),(0x00),(0x0000),("abc"),("abc "),(0xffff),(0x61000062),(0x00ff00)');
CALL try('VARBINARY(300)', '(""),(REPEAT(0x00, 300)),(REPEAT(0xff, 299)),("abc")');
CALL try('CHAR(6) CHARACTER SET latin1 COLLATE latin1_bin', '(""),("abc"),("ABC"),("a b"),("a\\t"),("\\t"),(0xe9),(" a"),("a  b"),("abc   ")');
CALL try('CHAR(6) CHARACTER SET latin1 COLLATE latin1_nopad_bin', '(""),("abc"),("ABC"),("a b"),("a\\t"),("\\t"),(0xe9),(" a"),("a  b"),("abc   ")');
CALL try('VARCHAR(6) CHARACTER SET latin1 COLLATE latin1_nopad_bin', '(""),("abc"),("ABC"),("a b"),("a\\0b"),("a\\t"),(0xe9),(" a"),("abc "),("abc")');
CALL try('VARCHAR(6) CHARACTER SET latin1 COLLATE latin1_bin', '(""),("abc"),("ABC"),("a b"),("a\\t"),("\\t"),(0xe9),(" a"),("abc ")');
CALL try('CHAR(6) CHARACTER SET ascii COLLATE ascii_bin', '(""),("abc"),("ABC"),("a b"),("abc ")');
CALL try('VARCHAR(10) CHARACTER SET utf8mb4', '(""),("abc"),("ABC"),("a b"),("ä"),("abc ")');
CALL try('CHAR(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin', '(""),("abc"),("ABC"),("a b"),("ä"),("𝄞"),("abc ")');
CALL try('UUID', '("00000000-0000-0000-0000-000000000000"),("123e4567-e89b-12d3-a456-426655440000"),("ffffffff-ffff-ffff-ffff-fffffffffffe")');
CALL try('INET6', '("::"),("::1"),("ffff::ffff"),("1:2:3:4:5:6:7:8")');

-- Zero with a sign is not zero.
CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, f FLOAT, d DOUBLE, KEY (f, id), KEY (d, id));
INSERT INTO t VALUES (1, -0e0, -0e0), (2, 0, 0), (3, -1e0 * 0, -1e0 * 0), (4, 1, 1);
SELECT f, id FROM t FORCE INDEX (f) ORDER BY f, id;
SELECT d, id FROM t FORCE INDEX (d) ORDER BY d, id;

-- Computed columns.
CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, a INT, v INT AS (a * 2) VIRTUAL, p INT AS (a * 3) PERSISTENT, x VARCHAR(10), KEY v (v), KEY vp (v, p, id), KEY xv (x, v));
INSERT INTO t (id, a, x) VALUES (1, 5, 'a'), (2, NULL, 'b'), (3, -7, 'c'), (4, 5, 'a');
SELECT v FROM t FORCE INDEX (v) ORDER BY v;
SELECT v, p, id FROM t FORCE INDEX (vp) ORDER BY v;
SELECT v, p, id, a FROM t FORCE INDEX (vp) WHERE v > -20 AND p < 20;
SELECT x, v FROM t FORCE INDEX (xv) ORDER BY x;
SELECT v FROM t FORCE INDEX (xv) WHERE x = 'a';
SELECT MIN(v), MAX(v) FROM t;
SELECT MAX(v) FROM t WHERE x = 'a';
UPDATE t SET v = DEFAULT, a = a + 1 WHERE v = 10;
SELECT v, p, id FROM t FORCE INDEX (vp) ORDER BY v, id;

-- A column that the key tells beside one that it does not; prefixes; rows told apart by the hash of a long column.
CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, name VARCHAR(20), n INT, b BLOB, u TEXT, UNIQUE (u), KEY name (name, n), KEY pre (name(3), n), KEY b (b(4), n));
INSERT INTO t VALUES (1, 'one', 1, 'blob1', 'u1'), (2, 'two ', 2, 'blob2', 'u2'), (3, 'Two', 3, NULL, NULL), (4, NULL, NULL, 'x', 'u4'), (5, 'ONE', 5, 'blob1', 'u5');
SELECT n FROM t FORCE INDEX (name) ORDER BY name, n;
SELECT n FROM t FORCE INDEX (name) WHERE name = 'two';
SELECT n, HEX(name) FROM t FORCE INDEX (name) WHERE name = 'two' ORDER BY n;
SELECT n, HEX(name) FROM t FORCE INDEX (name) WHERE name >= 'one' AND n > 1 ORDER BY n;
SELECT n, u FROM t FORCE INDEX (name) WHERE name BETWEEN 'one' AND 'onf' AND n > 1;
SELECT MIN(n), MAX(n) FROM t WHERE name = 'two';
SELECT MIN(name), MAX(name) FROM t;
SELECT n FROM t FORCE INDEX (pre) WHERE name LIKE 'tw%' ORDER BY n;
SELECT n FROM t FORCE INDEX (b) WHERE b = 'blob1' ORDER BY n;
SELECT COUNT(*) FROM t FORCE INDEX (b);
SELECT COUNT(*) FROM t;
SELECT u FROM t FORCE INDEX (u) WHERE u = 'u2';
SELECT MAX(n) FROM t GROUP BY name ORDER BY 1;

-- Index merges read the columns of keys to compare them with ranges.
CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, a VARCHAR(5), b INT, c INT, v INT AS (c + 1) VIRTUAL, pad CHAR(50), KEY (a), KEY (b), KEY (c), KEY (v));
INSERT INTO t (id, a, b, c, pad) SELECT seq, CONCAT('a', seq % 7), seq % 11, seq % 13, seq FROM seq_1_to_2000;
SELECT COUNT(*), SUM(id), SUM(pad) FROM t WHERE a = 'a3' AND b = 4;
SELECT COUNT(*), SUM(id), SUM(pad) FROM t WHERE a = 'a3' AND b = 4 AND c = 5;
SELECT COUNT(*), SUM(id), SUM(pad) FROM t WHERE v = 6 AND b = 4;
SELECT COUNT(*), SUM(id), SUM(pad) FROM t WHERE v = 6 OR b = 4 OR a = 'a1';
SELECT COUNT(*), SUM(id), SUM(pad) FROM t WHERE (v < 3 OR b = 4) AND c > 1;
DROP TABLE t;

-- A computed column in a key of which other columns cannot be told: the row is read, and what it is computed from.
CREATE TABLE t (id BIGINT NOT NULL, v INT AS (id % 10) VIRTUAL, w VARCHAR(20) AS (CONCAT(n, '!')) VIRTUAL, c TINYTEXT NOT NULL, n VARCHAR(10), f DOUBLE, KEY cv (c(1), v), KEY wcf (w, f));
INSERT INTO t (id, c, n, f) VALUES (14, 'a', 'x', 0), (27, 'b', 'y', -0e0), (5, 'c', 'z', 1);
SELECT SUM(v), MAX(v) FROM t WHERE 1 = 1;
SELECT v FROM t FORCE INDEX (cv) ORDER BY v;
SELECT v FROM t FORCE INDEX (cv) WHERE c > '' AND v > 4 ORDER BY v;
SELECT COUNT(DISTINCT v), COUNT(DISTINCT w), MIN(w) FROM t;
SELECT w, f FROM t FORCE INDEX (wcf) ORDER BY w;
SELECT v FROM t FORCE INDEX (cv) WHERE v = 7 FOR UPDATE;
UPDATE t FORCE INDEX (cv) SET n = 'q' WHERE v = 7 AND c > 'a';
SELECT w FROM t FORCE INDEX (wcf) WHERE w > 'p' ORDER BY w;
DROP TABLE t;
DROP SEQUENCE s;
DROP PROCEDURE try;
