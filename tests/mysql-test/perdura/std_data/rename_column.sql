-- a column that CHECKs, defaults and generated columns of others name
CREATE TABLE t1 (id INT PRIMARY KEY, a INT, b INT DEFAULT (a + 1), c INT CHECK (a > 0 OR b > 0), g INT AS (a + b) VIRTUAL, s INT AS (a * 2) STORED,
  CONSTRAINT sum CHECK (a + b < 1000));
INSERT INTO t1 (id, a, c) VALUES (1, 1, 1), (2, 2, 2);
ALTER TABLE t1 RENAME COLUMN a TO a1;
ALTER TABLE t1 RENAME COLUMN a1 TO a2, RENAME COLUMN b TO b2;
ALTER TABLE t1 RENAME COLUMN a2 TO b2, RENAME COLUMN b2 TO a2;
SHOW COLUMNS FROM t1;
SELECT column_name, generation_expression FROM information_schema.columns WHERE table_schema = 'test' ORDER BY 1;
SELECT constraint_name, check_clause FROM information_schema.check_constraints WHERE constraint_schema = 'test' ORDER BY 1;
INSERT INTO t1 (id, b2, c) VALUES (3, -5, 1);
INSERT INTO t1 (id, b2, c) VALUES (4, 999, 1);
INSERT INTO t1 (id, b2, c) VALUES (5, 30, 1);
ALTER TABLE t1 CHANGE a2 a3 INT, ALGORITHM=COPY;
ALTER TABLE t1 RENAME COLUMN a3 TO a2, ALGORITHM=COPY;
ALTER TABLE t1 RENAME COLUMN a2 TO a3;
ALTER TABLE t1 ADD COLUMN d INT CHECK (a3 IS NULL OR d IS NULL), RENAME COLUMN b2 TO b3;
ALTER TABLE t1 RENAME COLUMN a3 TO a4, ADD CONSTRAINT more CHECK (a4 < 500);
ALTER TABLE t1 RENAME COLUMN a4 TO a5, DROP CONSTRAINT more;
SHOW COLUMNS FROM t1;
SELECT column_name, generation_expression FROM information_schema.columns WHERE table_schema = 'test' ORDER BY 1;
SELECT constraint_name, check_clause FROM information_schema.check_constraints WHERE constraint_schema = 'test' ORDER BY 1;
SELECT * FROM t1 ORDER BY id;
DROP TABLE t1;

-- under an alias: the server looks for the column under the name by which it has opened the table first
CREATE TABLE t1 (id INT PRIMARY KEY, a INT, c INT CHECK (a > 0));
INSERT INTO t1 VALUES (1, 1, 1);
FLUSH TABLES t1;
SELECT * FROM t1 AS another_name;
ALTER TABLE t1 RENAME COLUMN a TO b;
FLUSH TABLES t1;
ALTER TABLE t1 RENAME COLUMN a TO b;
SELECT * FROM t1 AS another_name;
FLUSH TABLES t1;
ALTER TABLE t1 RENAME COLUMN b TO d;
SHOW COLUMNS FROM t1;
SELECT column_name, generation_expression FROM information_schema.columns WHERE table_schema = 'test' ORDER BY 1;
SELECT constraint_name, check_clause FROM information_schema.check_constraints WHERE constraint_schema = 'test' ORDER BY 1;
INSERT INTO t1 VALUES (2, 0, 1);
DROP TABLE t1;
