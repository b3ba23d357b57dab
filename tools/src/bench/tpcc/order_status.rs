//! Order-Status (clause 2.6): what has become of a customer's last order. It only reads.

use anyhow::{Result, ensure};
use perdura_tpcc::Random;

use super::customer::Customer;
use super::session::Session;

/// Input of the user.
pub struct OrderStatus {
    warehouse: u32,
    district: u32,
    customer: Customer,
}

impl OrderStatus {
    /// Chooses the input of a terminal of warehouse `home`.
    pub fn choose(random: &mut Random, home: u32) -> Self {
        Self { warehouse: home, district: random.district(), customer: Customer::choose(random) }
    }

    /// Runs the transaction.
    pub fn execute(&self, session: &mut Session) -> Result<()> {
        let (warehouse, district) = (self.warehouse, self.district);
        session.statement("BEGIN")?;
        let customer = self.customer.number(session, warehouse, district)?;
        let _: (String, String, String, String) = session.row(
            "SELECT c_balance, c_first, c_middle, c_last FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            (warehouse, district, customer),
        )?;
        let (order, lines, _): (u32, usize, Option<u32>) = session.row(
            "SELECT o_id, o_ol_cnt, o_carrier_id FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_c_id = ?
             ORDER BY o_id DESC LIMIT 1",
            (warehouse, district, customer),
        )?;
        let found: Vec<(u32, u32, u32, String)> = session.rows(
            "SELECT ol_i_id, ol_supply_w_id, ol_quantity, ol_amount FROM order_line
             WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            (warehouse, district, order),
        )?;
        ensure!(
            found.len() == lines,
            "order {order} of district {warehouse}/{district} has {} lines, not {lines}",
            found.len()
        );
        session.statement("COMMIT")
    }

    /// Has the server run the transaction.
    pub fn call(&self, session: &mut Session) -> Result<()> {
        let (number, name) = self.customer.number_or_name();
        let input = (self.warehouse, self.district, number, name);
        let found: Vec<(u32, u32, u32, String, usize)> = session.rows("CALL tx_order_status(?, ?, ?, ?)", input)?;
        let lines = found.first().map(|(.., lines)| *lines);
        ensure!(lines == Some(found.len()), "an order has {} lines, not {lines:?}", found.len());
        Ok(())
    }
}
