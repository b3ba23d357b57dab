//! Delivery (clause 2.7): the oldest new order of each district of a warehouse is delivered, all in
//! one transaction. It runs at once, not queued, as most drivers have it.

use anyhow::{Result, ensure};
use perdura_tpcc::{DISTRICTS, Random};

use super::session::Session;

/// Input of the user.
pub struct Delivery {
    warehouse: u32,
    carrier: u32,
}

impl Delivery {
    /// Chooses the input of a terminal of warehouse `home`.
    pub fn choose(random: &mut Random, home: u32) -> Self {
        Self { warehouse: home, carrier: random.number(1, 10) }
    }

    /// Runs the transaction.
    pub fn execute(&self, session: &mut Session) -> Result<()> {
        session.statement("BEGIN")?;
        (1..=DISTRICTS).try_for_each(|district| self.deliver(session, district))?;
        session.statement("COMMIT")
    }

    /// Has the server run the transaction.
    pub fn call(&self, session: &mut Session) -> Result<()> {
        session.change("CALL tx_delivery(?, ?)", (self.warehouse, self.carrier)).map(drop)
    }

    /// Delivers the oldest order of a district, if one is left.
    fn deliver(&self, session: &mut Session, district: u32) -> Result<()> {
        let warehouse = self.warehouse;
        let oldest: Option<u32> = session.first(
            "SELECT no_o_id FROM new_order WHERE no_w_id = ? AND no_d_id = ? ORDER BY no_o_id LIMIT 1 FOR UPDATE",
            (warehouse, district),
        )?;
        let Some(order) = oldest else { return Ok(()) };
        let key = (warehouse, district, order);
        session.change_one("DELETE FROM new_order WHERE no_w_id = ? AND no_d_id = ? AND no_o_id = ?", key)?;
        let (customer, lines): (u32, u64) =
            session.row("SELECT o_c_id, o_ol_cnt FROM orders WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?", key)?;
        session.change_one(
            "UPDATE orders SET o_carrier_id = ? WHERE o_w_id = ? AND o_d_id = ? AND o_id = ?",
            (self.carrier, warehouse, district, order),
        )?;
        let delivered = session.change(
            "UPDATE order_line SET ol_delivery_d = NOW() WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?",
            key,
        )?;
        ensure!(delivered == lines, "order {order} of {warehouse}/{district}: {delivered} of {lines} lines delivered");
        let (amount,): (String,) = session
            .row("SELECT SUM(ol_amount) FROM order_line WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id = ?", key)?;
        session.change_one(
            "UPDATE customer SET c_balance = c_balance + ?, c_delivery_cnt = c_delivery_cnt + 1
             WHERE c_w_id = ? AND c_d_id = ? AND c_id = ?",
            (amount, warehouse, district, customer),
        )
    }
}
