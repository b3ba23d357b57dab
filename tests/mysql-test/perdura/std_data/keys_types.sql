-- Keys on every column type: the order, equality and ranges that an index gives. Run for two engines, whose output is compared.

SET sql_mode='';
DELIMITER //
-- Reads t through its indexes in every way, around the value of each row.
CREATE OR REPLACE PROCEDURE look(what TEXT)
BEGIN
  SELECT what;
  SELECT id, HEX(c) FROM t FORCE INDEX (k) ORDER BY c, id;
  SELECT GROUP_CONCAT(id) AS ascending FROM (SELECT id FROM t FORCE INDEX (k) ORDER BY c, id LIMIT 100) AS q;
  SELECT GROUP_CONCAT(id) AS descending FROM (SELECT id FROM t FORCE INDEX (k) ORDER BY c DESC, id DESC LIMIT 100) AS q;
  SELECT GROUP_CONCAT(id) AS turned FROM (SELECT id FROM t FORCE INDEX (r) ORDER BY c DESC, id LIMIT 100) AS q;
  SELECT GROUP_CONCAT(id) AS turned_back FROM (SELECT id FROM t FORCE INDEX (r) ORDER BY c, id DESC LIMIT 100) AS q;
  SELECT COUNT(*), SUM(id) FROM t FORCE INDEX (k) WHERE c IS NULL;
  SELECT COUNT(*), SUM(id) FROM t FORCE INDEX (r) WHERE c IS NOT NULL;
  FOR one IN (SELECT id FROM t ORDER BY id) DO
    SELECT one.id,
      (SELECT GROUP_CONCAT(id ORDER BY id) FROM t FORCE INDEX (k) WHERE c = (SELECT x.c FROM t x WHERE x.id = one.id)) AS equal,
      (SELECT GROUP_CONCAT(id ORDER BY id) FROM t FORCE INDEX (k) WHERE c < (SELECT x.c FROM t x WHERE x.id = one.id)) AS below,
      (SELECT GROUP_CONCAT(id ORDER BY id) FROM t FORCE INDEX (k) WHERE c >= (SELECT x.c FROM t x WHERE x.id = one.id)) AS from_it,
      (SELECT GROUP_CONCAT(id ORDER BY id) FROM t FORCE INDEX (r) WHERE c <= (SELECT x.c FROM t x WHERE x.id = one.id)) AS up_to_it,
      (SELECT GROUP_CONCAT(id ORDER BY id) FROM t FORCE INDEX (r) WHERE c > (SELECT x.c FROM t x WHERE x.id = one.id)) AS above,
      (SELECT MIN(id) FROM t FORCE INDEX (k) WHERE c <=> (SELECT x.c FROM t x WHERE x.id = one.id) AND id >= one.id) AS itself;
  END FOR;
  SELECT a.id, GROUP_CONCAT(b.id ORDER BY b.id) AS joined FROM t a JOIN t b FORCE INDEX (k) ON b.c = a.c GROUP BY a.id;
  UPDATE t SET c = (SELECT c FROM (SELECT * FROM t) AS q WHERE id = 3) WHERE id IN (1, 2);
  SELECT GROUP_CONCAT(id) AS updated FROM (SELECT id FROM t FORCE INDEX (k) ORDER BY c, id LIMIT 100) AS q;
  DELETE FROM t WHERE c = (SELECT c FROM (SELECT * FROM t) AS q WHERE id = 3);
  SELECT GROUP_CONCAT(id) AS deleted FROM (SELECT id FROM t FORCE INDEX (k) ORDER BY c, id LIMIT 100) AS q;
  SELECT COUNT(*) FROM t FORCE INDEX (r) WHERE c IS NULL OR c IS NOT NULL;
END//
-- A table with a nullable and one with a NOT NULL column of the type, filled with the values.
CREATE OR REPLACE PROCEDURE try(type TEXT, vals TEXT)
BEGIN
  CREATE OR REPLACE SEQUENCE s ENGINE=InnoDB;
  EXECUTE IMMEDIATE CONCAT('CREATE OR REPLACE TABLE t (id INT DEFAULT NEXTVAL(s) PRIMARY KEY, c ', type,
                           ', KEY k (c, id), KEY r (c DESC, id))');
  EXECUTE IMMEDIATE CONCAT('INSERT INTO t (c) VALUES ', vals, ',(NULL),', vals);
  CALL look(type);
  CREATE OR REPLACE SEQUENCE s ENGINE=InnoDB;
  EXECUTE IMMEDIATE CONCAT('CREATE OR REPLACE TABLE t (id INT DEFAULT NEXTVAL(s) PRIMARY KEY, c ', type,
                           ' NOT NULL, KEY k (c, id), KEY r (c DESC, id))');
  EXECUTE IMMEDIATE CONCAT('INSERT INTO t (c) VALUES ', vals);
  CALL look(CONCAT(type, ' NOT NULL'));
END//
-- The same with keys on the first characters.
CREATE OR REPLACE PROCEDURE try_prefix(type TEXT, vals TEXT)
BEGIN
  CREATE OR REPLACE SEQUENCE s ENGINE=InnoDB;
  EXECUTE IMMEDIATE CONCAT('CREATE OR REPLACE TABLE t (id INT DEFAULT NEXTVAL(s) PRIMARY KEY, c ', type,
                           ', KEY k (c(3), id), KEY r (c(2) DESC, id))');
  EXECUTE IMMEDIATE CONCAT('INSERT INTO t (c) VALUES ', vals, ',(NULL),', vals);
  CALL look(CONCAT(type, ' prefix'));
END//
DELIMITER ;

CALL try('TINYINT', '(0),(1),(-1),(127),(-128)');
CALL try('TINYINT UNSIGNED', '(0),(1),(127),(128),(255)');
CALL try('SMALLINT', '(0),(255),(256),(-1),(-256),(-32768),(32767)');
CALL try('MEDIUMINT', '(0),(65535),(65536),(-1),(-65536),(-8388608),(8388607)');
CALL try('INT', '(0),(1),(256),(-1),(-256),(-2147483648),(2147483647)');
CALL try('INT UNSIGNED ZEROFILL', '(0),(1),(2147483648),(4294967295)');
CALL try('BIGINT', '(0),(1),(4294967296),(-1),(-4294967296),(-9223372036854775808),(9223372036854775807)');
CALL try('BIGINT UNSIGNED', '(0),(1),(9223372036854775808),(18446744073709551615)');
CALL try('FLOAT', '(0),(-0e0),(1.5),(-1.5),(1e30),(-1e30),(1e-30),(-1e-30)');
CALL try('DOUBLE', '(0),(-0e0),(1.5),(-1.5),(1e300),(-1e300),(1e-300),(-1e-300)');
CALL try('DECIMAL(20,5)', '(0),(1),(-1),(0.00001),(-0.00001),(999999999999999.99999),(-999999999999999.99999),(10.5),(9.5)');
CALL try('DECIMAL(65,30)', '(0),(1),(-1),(12345678901234567890123456789012345.5),(-12345678901234567890123456789012345.5)');
CALL try('BIT(1)', '(0),(1)');
CALL try('BIT(7)', '(0),(1),(64),(127)');
CALL try('BIT(17)', '(0),(1),(255),(256),(65536),(131071)');
CALL try('BIT(64)', '(0),(1),(255),(256),(9223372036854775808),(18446744073709551615)');
CALL try('YEAR', '(1901),(2155),(0),(2000),(1999)');
CALL try('DATE', '("2001-01-01"),("2001-01-02"),("0000-00-00"),("9999-12-31"),("1970-01-01"),("2001-00-00")');
CALL try('TIME', '("00:00:00"),("-00:00:01"),("838:59:59"),("-838:59:59"),("12:00:00")');
CALL try('TIME(3)', '("00:00:00"),("-00:00:00.001"),("00:00:00.001"),("838:59:59.999"),("-838:59:59.999")');
CALL try('TIME(6)', '("00:00:00"),("-00:00:00.000001"),("00:00:00.000001"),("-12:00:00.5")');
CALL try('DATETIME', '("2001-01-01 00:00:00"),("2001-01-01 00:00:01"),("0000-00-00 00:00:00"),("9999-12-31 23:59:59")');
CALL try('DATETIME(2)', '("2001-01-01 00:00:00.01"),("2001-01-01 00:00:00.1"),("9999-12-31 23:59:59.99")');
CALL try('DATETIME(6)', '("2001-01-01 00:00:00.000001"),("2001-01-01 00:00:00.1"),("1000-01-01 00:00:00")');
CALL try('TIMESTAMP(6) NULL', '("2001-01-01 00:00:00.000001"),("2001-01-01 00:00:00.1"),("2037-12-31 00:00:00")');
CALL try('ENUM("z","b","a","","m")', '("a"),("b"),("z"),(""),("m"),("nothing")');
CALL try('SET("a","b","c","d","e","f","g","h","i")', '("a"),("b"),("a,b"),(""),("i"),("a,i"),("h")');
CALL try('SET("1","2","3","4","5","6","7","8","9","10","11","12","13","14","15","16","17","18")', '("1"),("18"),("9"),("1,18"),("")');
CALL try('INET6', '("::"),("::1"),("ffff::"),("1:2:3::4")');
CALL try('INET4', '("0.0.0.0"),("0.0.0.1"),("255.255.255.255"),("10.0.0.1")');
CALL try('UUID', '("00000000-0000-0000-0000-000000000000"),("ffffffff-ffff-1fff-bfff-ffffffffffff"),("01000000-0000-1000-8000-000000000000"),("00000000-0000-1001-8000-000000000001")');
CALL try('UUID', '("8e23f69d-0000-11ee-8000-0000e734041f"),("6158ff3a-0000-11ee-8000-0000458ae92b"),("6158ff3a-0000-11ee-8000-0000658ae92b"),("20202020-0000-11ee-8000-000000000000"),("20200000-0000-11ee-8000-000000000000")');
CALL try('INET6', '("4100::"),("6100::"),("e700::"),("4500::"),("4100::20")');
CALL try('BINARY(3)', '(""),("a"),("a "),("a\\0\\0"),("ab"),(0xff),("\\0\\0a")');
CALL try('VARBINARY(10)', '(""),("a"),("a "),("a\\0"),("a\\0\\0"),("a\\0b"),("ab"),(0xff),(0xff00),("\\0"),("\\0\\0"),(0x00ff)');
CALL try_prefix('VARBINARY(10)', '(""),("a"),("a "),("a\\0"),("a\\0\\0"),("a\\0\\0\\0"),("abc"),("abcd"),("abce"),("ab"),(0xff)');
CALL try_prefix('BINARY(5)', '(""),("a"),("abc"),("abcd"),("abce"),("ab"),(0xff)');
CALL try_prefix('BLOB', '(""),("a"),("a "),("a\\0"),("a\\0\\0"),("abc"),("abcd"),("abce"),("ab"),(0xff)');
CALL try_prefix('LONGBLOB', '(""),("a"),("abc"),("abcd"),(REPEAT("b", 100000))');
CALL try_prefix('TINYTEXT', '(""),("a"),("a "),("abc"),("abcd"),("ABCE"),("ab")');
CALL try_prefix('TEXT CHARACTER SET utf8mb4', '(""),("a"),("a "),("abc"),("abcd"),("ABCE"),("ab"),("äöü"),("äöüx"),("ao")');
CALL try_prefix('VARCHAR(10) CHARACTER SET utf8mb4', '(""),("a"),("a "),("abc"),("abcd"),("ABCE"),("ab"),("äöü"),("äöüx"),("ao")');
CALL try_prefix('CHAR(10) CHARACTER SET utf8mb4', '(""),("a"),("a "),("abc"),("abcd"),("ABCE"),("ab"),("äöü"),("äöüx"),("ao")');
CALL try_prefix('CHAR(10) CHARACTER SET latin1 COLLATE latin1_nopad_bin', '(""),("a"),("a "),("abc"),("abcd"),("ABCE"),("ab")');
DROP PROCEDURE try_prefix;
DROP PROCEDURE try;
DROP PROCEDURE look;
DROP TABLE t;
DROP SEQUENCE s;
