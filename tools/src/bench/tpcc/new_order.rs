//! New-Order (clause 2.4): a customer orders 5 to 15 items. One in a hundred names an item that
//! does not exist, and is rolled back.

use anyhow::Result;
use perdura_tpcc::{Random, UNUSED_ITEM};

use super::money::{cents, decimal};
use super::procedures::LINE_DIGITS;
use super::session::Session;

struct Line {
    item: u32,
    supplier: u32,
    quantity: u32,
}

/// Input of the user.
pub struct NewOrder {
    warehouse: u32,
    district: u32,
    customer: u32,
    /// By warehouse and item, so that two orders never wait for each other's stock in a circle.
    /// Only the last item may not exist.
    lines: Vec<Line>,
}

impl NewOrder {
    /// Chooses the input of a terminal of warehouse `home`.
    pub fn choose(random: &mut Random, home: u32, warehouses: u32) -> Self {
        let (district, customer) = (random.district(), random.customer());
        let mut lines: Vec<Line> = (0..random.number(5, 15))
            .map(|_| {
                let supplier = if random.percent(1) { random.remote(home, warehouses) } else { home };
                Line { item: random.item(), supplier, quantity: random.number(1, 10) }
            })
            .collect();
        lines.sort_by_key(|line| (line.supplier, line.item));
        if random.percent(1) {
            lines.last_mut().expect("an order has a line").item = UNUSED_ITEM;
        }
        Self { warehouse: home, district, customer, lines }
    }

    /// Runs the transaction, and returns whether it was committed.
    pub fn execute(&self, session: &mut Session) -> Result<bool> {
        session.statement("BEGIN")?;
        let _: (String, String, String, String) = session.row(
            "SELECT w_tax, c_discount, c_last, c_credit FROM warehouse JOIN customer ON c_w_id = w_id
             WHERE w_id = ? AND c_d_id = ? AND c_id = ?",
            (self.warehouse, self.district, self.customer),
        )?;
        let (order, _): (u32, String) = session.row(
            "SELECT d_next_o_id, d_tax FROM district WHERE d_w_id = ? AND d_id = ? FOR UPDATE",
            (self.warehouse, self.district),
        )?;
        session.change_one(
            "UPDATE district SET d_next_o_id = ? WHERE d_w_id = ? AND d_id = ?",
            (order + 1, self.warehouse, self.district),
        )?;
        let local = self.lines.iter().all(|line| line.supplier == self.warehouse);
        session.change_one(
            "INSERT INTO orders (o_id, o_d_id, o_w_id, o_c_id, o_entry_d, o_ol_cnt, o_all_local)
             VALUES (?, ?, ?, ?, NOW(), ?, ?)",
            (order, self.district, self.warehouse, self.customer, self.lines.len(), local),
        )?;
        session.change_one(
            "INSERT INTO new_order (no_o_id, no_d_id, no_w_id) VALUES (?, ?, ?)",
            (order, self.district, self.warehouse),
        )?;
        for (number, line) in (1_u32..).zip(&self.lines) {
            if !self.enter(session, order, number, line)? {
                session.statement("ROLLBACK")?;
                return Ok(false);
            }
        }
        session.statement("COMMIT")?;
        Ok(true)
    }

    /// Has the server run the transaction, and returns whether it was committed.
    pub fn call(&self, session: &mut Session) -> Result<bool> {
        let [item, supplier, quantity] = LINE_DIGITS;
        let digits =
            |line: &Line| format!("{:0item$}{:0supplier$}{:0quantity$}", line.item, line.supplier, line.quantity);
        let lines: String = self.lines.iter().map(digits).collect();
        let local = self.lines.iter().all(|line| line.supplier == self.warehouse);
        let input = (self.warehouse, self.district, self.customer, self.lines.len(), local, lines);
        session.row("CALL tx_new_order(?, ?, ?, ?, ?, ?)", input).map(|(committed,)| committed)
    }

    /// Takes an item from stock and enters its line. Returns false if there is no such item.
    fn enter(&self, session: &mut Session, order: u32, number: u32, line: &Line) -> Result<bool> {
        let found: Option<(String, String, String)> =
            session.first("SELECT i_price, i_name, i_data FROM item WHERE i_id = ?", (line.item,))?;
        let Some((price, ..)) = found else { return Ok(false) };
        let query = format!(
            "SELECT s_quantity, s_data, s_dist_{:02} FROM stock WHERE s_w_id = ? AND s_i_id = ? FOR UPDATE",
            self.district
        );
        let (left, _, info): (u32, String, String) = session.row(&query, (line.supplier, line.item))?;
        let left = if left >= line.quantity + 10 { left - line.quantity } else { left + 91 - line.quantity };
        session.change_one(
            "UPDATE stock SET s_quantity = ?, s_ytd = s_ytd + ?, s_order_cnt = s_order_cnt + 1,
             s_remote_cnt = s_remote_cnt + ? WHERE s_w_id = ? AND s_i_id = ?",
            (left, line.quantity, line.supplier != self.warehouse, line.supplier, line.item),
        )?;
        let amount = cents(&price)? * i64::from(line.quantity);
        session.change_one(
            "INSERT INTO order_line (ol_o_id, ol_d_id, ol_w_id, ol_number, ol_i_id, ol_supply_w_id, ol_quantity,
             ol_amount, ol_dist_info) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                order,
                self.district,
                self.warehouse,
                number,
                line.item,
                line.supplier,
                line.quantity,
                decimal(amount),
                info,
            ),
        )?;
        Ok(true)
    }
}
