//! The five transactions as stored procedures of the server, one call each, as kits such as
//! HammerDB run them. They do what the statements of the transactions' own files do, in the same
//! order and with the same locks, on the same input.
//!
//! One call takes the place of some fifty messages, which cost the server and its client the same
//! with every engine.

use anyhow::Result;

use super::session::Session;

/// Digits of an item, of the warehouse that supplies it, and of its quantity, as New-Order takes
/// its lines: one text.
pub const LINE_DIGITS: [usize; 3] = [6, 5, 2];

/// Makes the procedures in the session's database.
pub fn create(session: &mut Session) -> Result<()> {
    let all = [NEW_ORDER, PAYMENT, CUSTOMER_BY_NAME, ORDER_STATUS, DELIVERY, STOCK_LEVEL];
    all.iter().try_for_each(|procedure| session.statement(procedure))
}

/// Its result is one row: whether the order was committed.
const NEW_ORDER: &str = "
CREATE PROCEDURE tx_new_order(w INT, d INT, c INT, line_count INT, is_local INT, ordered VARCHAR(255))
BEGIN
  DECLARE o, line, item, supplier, wanted, in_stock, price_missing INT DEFAULT 0;
  DECLARE tax_w, tax_d, discount DECIMAL(4,4);
  DECLARE last_name, item_name VARCHAR(24);
  DECLARE credit CHAR(2);
  DECLARE price DECIMAL(5,2);
  DECLARE item_data, stock_data VARCHAR(50);
  DECLARE info CHAR(24);
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET price_missing = 1;
  START TRANSACTION;
  SELECT w_tax, c_discount, c_last, c_credit INTO tax_w, discount, last_name, credit FROM warehouse JOIN customer ON c_w_id = w_id
    WHERE w_id = w AND c_d_id = d AND c_id = c;
  SELECT d_next_o_id, d_tax INTO o, tax_d FROM district WHERE d_w_id = w AND d_id = d FOR UPDATE;
  UPDATE district SET d_next_o_id = o + 1 WHERE d_w_id = w AND d_id = d;
  INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
    VALUES (o, d, w, c, NOW(), line_count, is_local);
  INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (o, d, w);
  WHILE line < line_count AND NOT price_missing DO
    SET item = SUBSTRING(ordered, line * 13 + 1, 6), supplier = SUBSTRING(ordered, line * 13 + 7, 5),
        wanted = SUBSTRING(ordered, line * 13 + 12, 2), line = line + 1;
    SELECT i_price, i_name, i_data INTO price, item_name, item_data FROM item WHERE i_id = item;
    IF NOT price_missing THEN
      SELECT s_quantity, s_data, ELT(d, s_dist_01, s_dist_02, s_dist_03, s_dist_04, s_dist_05, s_dist_06, s_dist_07, s_dist_08,
                                     s_dist_09, s_dist_10)
        INTO in_stock, stock_data, info FROM stock WHERE s_w_id = supplier AND s_i_id = item FOR UPDATE;
      UPDATE stock SET s_quantity = IF(in_stock >= wanted + 10, in_stock - wanted, in_stock + 91 - wanted),
        s_ytd = s_ytd + wanted, s_order_cnt = s_order_cnt + 1, s_remote_cnt = s_remote_cnt + (supplier <> w)
        WHERE s_w_id = supplier AND s_i_id = item;
      INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, ol_dist_info)
        VALUES (o, d, w, line, item, supplier, wanted, price * wanted, info);
    END IF;
  END WHILE;
  IF price_missing THEN ROLLBACK; ELSE COMMIT; END IF;
  SELECT NOT price_missing;
END";

/// The customer in the middle, by first name, of those with a last name.
const CUSTOMER_BY_NAME: &str = "
CREATE PROCEDURE tx_customer_by_name(w INT, d INT, name VARCHAR(16), OUT c INT)
BEGIN
  DECLARE before_middle INT;
  SELECT (COUNT(*) - 1) DIV 2 INTO before_middle FROM customer WHERE c_w_id = w AND c_d_id = d AND c_last = name;
  SELECT c_id INTO c FROM customer WHERE c_w_id = w AND c_d_id = d AND c_last = name ORDER BY c_first LIMIT before_middle, 1;
END";

/// Customer 0 is the one called `name`.
const PAYMENT: &str = "
CREATE PROCEDURE tx_payment(w INT, d INT, cw INT, cd INT, c INT, name VARCHAR(16), amount DECIMAL(6,2))
BEGIN
  DECLARE name_w, name_d VARCHAR(10);
  DECLARE street_1, street_2, city VARCHAR(20);
  DECLARE state, credit CHAR(2);
  DECLARE zip CHAR(9);
  DECLARE discount DECIMAL(4,4);
  DECLARE balance DECIMAL(12,2);
  START TRANSACTION;
  UPDATE warehouse SET w_ytd = w_ytd + amount WHERE w_id = w;
  SELECT w_name, w_street_1, w_street_2, w_city, w_state, w_zip INTO name_w, street_1, street_2, city, state, zip
    FROM warehouse WHERE w_id = w;
  UPDATE district SET d_ytd = d_ytd + amount WHERE d_w_id = w AND d_id = d;
  SELECT d_name, d_street_1, d_street_2, d_city, d_state, d_zip INTO name_d, street_1, street_2, city, state, zip
    FROM district WHERE d_w_id = w AND d_id = d;
  IF c = 0 THEN CALL tx_customer_by_name(cw, cd, name, c); END IF;
  SELECT c_credit, c_discount, c_balance INTO credit, discount, balance FROM customer
    WHERE c_w_id = cw AND c_d_id = cd AND c_id = c FOR UPDATE;
  IF credit = 'BC' THEN
    UPDATE customer SET c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount, c_payment_cnt = c_payment_cnt + 1,
      c_data = LEFT(CONCAT(c, ' ', cd, ' ', cw, ' ', d, ' ', w, ' ', amount, '|', c_data), 500)
      WHERE c_w_id = cw AND c_d_id = cd AND c_id = c;
  ELSE
    UPDATE customer SET c_balance = c_balance - amount, c_ytd_payment = c_ytd_payment + amount, c_payment_cnt = c_payment_cnt + 1
      WHERE c_w_id = cw AND c_d_id = cd AND c_id = c;
  END IF;
  INSERT INTO history (h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount, h_data)
    VALUES (c, cd, cw, d, w, NOW(), amount, CONCAT(name_w, '    ', name_d));
  COMMIT;
END";

/// Its result is the lines of the order.
const ORDER_STATUS: &str = "
CREATE PROCEDURE tx_order_status(w INT, d INT, c INT, name VARCHAR(16))
BEGIN
  DECLARE balance DECIMAL(12,2);
  DECLARE first_name, last_name VARCHAR(16);
  DECLARE middle CHAR(2);
  DECLARE o, line_count, carrier INT;
  START TRANSACTION;
  IF c = 0 THEN CALL tx_customer_by_name(w, d, name, c); END IF;
  SELECT c_balance, c_first, c_middle, c_last INTO balance, first_name, middle, last_name FROM customer
    WHERE c_w_id = w AND c_d_id = d AND c_id = c;
  SELECT o_id, o_ol_cnt, o_carrier_id INTO o, line_count, carrier FROM orders WHERE o_w_id = w AND o_d_id = d AND o_c_id = c
    ORDER BY o_id DESC LIMIT 1;
  SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount, line_count FROM order_line
    WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
  COMMIT;
END";

const DELIVERY: &str = "
CREATE PROCEDURE tx_delivery(w INT, carrier INT)
BEGIN
  DECLARE d INT DEFAULT 1;
  DECLARE o, c INT;
  DECLARE total DECIMAL(12,2);
  DECLARE CONTINUE HANDLER FOR NOT FOUND SET o = NULL;
  START TRANSACTION;
  WHILE d <= 10 DO
    SELECT no_o_id INTO o FROM new_order WHERE no_w_id = w AND no_d_id = d ORDER BY no_o_id LIMIT 1 FOR UPDATE;
    IF o IS NOT NULL THEN
      DELETE FROM new_order WHERE no_w_id = w AND no_d_id = d AND no_o_id = o;
      SELECT o_c_id INTO c FROM orders WHERE o_w_id = w AND o_d_id = d AND o_id = o;
      UPDATE orders SET o_carrier_id = carrier WHERE o_w_id = w AND o_d_id = d AND o_id = o;
      UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
      SELECT SUM(ol_amount) INTO total FROM order_line WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id = o;
      UPDATE customer SET c_balance = c_balance + total, c_delivery_cnt = c_delivery_cnt + 1
        WHERE c_w_id = w AND c_d_id = d AND c_id = c;
    END IF;
    SET d = d + 1;
  END WHILE;
  COMMIT;
END";

/// Its result is one row: how many items are scarce.
const STOCK_LEVEL: &str = "
CREATE PROCEDURE tx_stock_level(w INT, d INT, threshold INT)
BEGIN
  DECLARE next_order INT;
  START TRANSACTION;
  SELECT d_next_o_id INTO next_order FROM district WHERE d_w_id = w AND d_id = d;
  SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = w AND s_i_id = ol_i_id
    WHERE ol_w_id = w AND ol_d_id = d AND ol_o_id >= next_order - 20 AND ol_o_id < next_order AND s_quantity < threshold;
  COMMIT;
END";
