-- Keys on texts of every collation: order, equality and ranges. Run for two engines, whose output is compared.

SET NAMES utf8mb4, sql_mode='';
DELIMITER //
-- Appends to @found what a query finds.
CREATE OR REPLACE PROCEDURE note(query TEXT)
BEGIN
  EXECUTE IMMEDIATE CONCAT('SELECT MD5(CONCAT(@found, ",", IFNULL(GROUP_CONCAT(id), "-"))) INTO @found FROM (', query, ' LIMIT 1000) AS q');
END//
-- Reads t, which has texts of one collation, in the ways that depend on it, and prints a digest of what was found.
CREATE OR REPLACE PROCEDURE look(collation TEXT, type TEXT)
BEGIN
  DECLARE CONTINUE HANDLER FOR 1366, 1977, 3854 BEGIN END;
  SET @found= '';
  EXECUTE IMMEDIATE CONCAT('CREATE OR REPLACE TABLE t (id INT PRIMARY KEY, c ', type, ' COLLATE ', collation,
                           ', KEY k (c', IF(type LIKE '%TEXT%', '(12)', ''), ', id), KEY r (c',
                           IF(type LIKE '%TEXT%', '(12)', ''), ' DESC, id DESC), KEY p (c(2), id))');
  INSERT IGNORE INTO t SELECT id, c FROM texts;
  IF type LIKE '%CHAR%' THEN
    CALL note('SELECT id FROM t FORCE INDEX (k) ORDER BY c, id');
    CALL note('SELECT id FROM t FORCE INDEX (k) ORDER BY c DESC, id DESC');
    CALL note('SELECT id FROM t FORCE INDEX (r) ORDER BY c, id');
    SELECT GROUP_CONCAT(id) INTO @ascending FROM (SELECT id FROM t FORCE INDEX (k) ORDER BY c, id LIMIT 1000) AS q;
  ELSE
    SET @ascending= '-';
  END IF;
  FOR one IN (SELECT id FROM texts WHERE id IN (2, 4, 7, 9, 12, 15, 18, 21, 24, 29, 31)) DO
    CALL note(CONCAT('SELECT id FROM t FORCE INDEX (k) WHERE c = (SELECT x.c FROM t x WHERE x.id = ', one.id, ') ORDER BY id'));
    -- InnoDB does not find 'a\t' through its first two characters in a CHAR column that does not pad.
    SET @part= IF(type LIKE 'CHAR%' AND collation REGEXP 'nopad|_0900_', 'k', 'p');
    CALL note(CONCAT('SELECT id FROM t FORCE INDEX (', @part, ') WHERE c = (SELECT x.c FROM t x WHERE x.id = ', one.id, ') ORDER BY id'));
    CALL note(CONCAT('SELECT id FROM t FORCE INDEX (k) WHERE c < (SELECT x.c FROM t x WHERE x.id = ', one.id, ') ORDER BY id'));
    CALL note(CONCAT('SELECT id FROM t FORCE INDEX (r) WHERE c >= (SELECT x.c FROM t x WHERE x.id = ', one.id, ') ORDER BY id'));
    CALL note(CONCAT('SELECT id FROM t FORCE INDEX (', @part, ') WHERE c > (SELECT x.c FROM t x WHERE x.id = ', one.id, ') ORDER BY id'));
  END FOR;
  CALL note('SELECT id FROM t FORCE INDEX (k) WHERE c LIKE "a%" ORDER BY id');
  CALL note('SELECT id FROM t FORCE INDEX (r) WHERE c LIKE "ab%" ORDER BY id');
  CALL note('SELECT id FROM t FORCE INDEX (p) WHERE c LIKE "a %" ORDER BY id');
  SELECT collation, type, @found, @ascending;
END//
CREATE OR REPLACE PROCEDURE look_all()
BEGIN
  FOR one IN (SELECT COLLATION_NAME AS name, IFNULL(CHARACTER_SET_NAME, 'utf8mb4') AS cs FROM information_schema.COLLATION_CHARACTER_SET_APPLICABILITY
              -- Of the languages, only those of utf8mb4, and of the many of Unicode 14 only two.
              WHERE FULL_COLLATION_NAME <> 'binary' AND FULL_COLLATION_NAME NOT REGEXP
                '^(utf8mb3|ucs2|utf16|utf16le|utf32)_(?!general|bin|nopad|unicode|uca1400_(nopad_)?a)|uca1400_(?!(danish|czech)?_?(nopad_)?a)'
              ORDER BY FULL_COLLATION_NAME) DO
    CALL look(one.name, CONCAT('VARCHAR(12) CHARACTER SET ', one.cs));
    CALL look(one.name, CONCAT('CHAR(12) CHARACTER SET ', one.cs));
    CALL look(one.name, CONCAT('TEXT CHARACTER SET ', one.cs));
  END FOR;
END//
DELIMITER ;

CREATE OR REPLACE TABLE texts (id INT PRIMARY KEY, c VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin) ENGINE=InnoDB;
INSERT INTO texts VALUES (1,NULL),(2,''),(3,' '),(4,'a'),(5,'a '),(6,'A'),(7,'a\t'),(8,'a \t'),(9,'a b'),(10,'a  b'),(11,'ab'),
  (12,'aB'),(13,'á'),(14,'Äb'),(15,'ae'),(16,'æ'),(17,'ss'),(18,'ß'),(19,'ch'),(20,'cz'),(21,'ll'),(22,'lz'),(23,'h'),(24,'日本'),
  (25,'日'),(26,'กข'),(27,'เก'),(28,'я'),(29,'Я '),(30,'ё'),(31,'\t'),(32,'a\0'),(33,'a\0b'),(34,'\0'),(35,'a-b'),(36,'a.b'),
  (37,'😀'),(38,'😀a'),(39,'  a'),(40,'a   '),(41,'a  \t'),(42,'a  \tb'),(43,'zzzzzzzzzzzz'),(44,'i'),(45,'I'),(46,'ı'),(47,'İ'),
  (48,'l·l'),(49,'dž'),(50,'ﷺ'),(51,'a\nb'),(52,'ｶﾞ'),(53,'ガ'),(54,'か'),(55,'한'),(56,'中文'),(57,'啊'),(58,'阿');
CALL look_all();
DROP PROCEDURE look_all;
DROP PROCEDURE look;
DROP PROCEDURE note;
DROP TABLE t, texts;
