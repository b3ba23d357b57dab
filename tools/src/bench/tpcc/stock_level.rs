//! Stock-Level (clause 2.8): how many items of the last 20 orders of a district are scarce. It only
//! reads.

use anyhow::Result;
use perdura_tpcc::Random;

use super::session::Session;

/// Input of the user.
pub struct StockLevel {
    warehouse: u32,
    district: u32,
    threshold: u32,
}

impl StockLevel {
    /// Chooses the input of a terminal of this warehouse and district.
    pub fn choose(random: &mut Random, warehouse: u32, district: u32) -> Self {
        Self { warehouse, district, threshold: random.number(10, 20) }
    }

    /// Runs the transaction.
    pub fn execute(&self, session: &mut Session) -> Result<()> {
        session.statement("BEGIN")?;
        let (next,): (u32,) = session
            .row("SELECT d_next_o_id FROM district WHERE d_w_id = ? AND d_id = ?", (self.warehouse, self.district))?;
        let _: (u64,) = session.row(
            "SELECT COUNT(DISTINCT s_i_id) FROM order_line JOIN stock ON s_w_id = ? AND s_i_id = ol_i_id
             WHERE ol_w_id = ? AND ol_d_id = ? AND ol_o_id >= ? AND ol_o_id < ? AND s_quantity < ?",
            (self.warehouse, self.warehouse, self.district, next - 20, next, self.threshold),
        )?;
        session.statement("COMMIT")
    }

    /// Has the server run the transaction.
    pub fn call(&self, session: &mut Session) -> Result<()> {
        let input = (self.warehouse, self.district, self.threshold);
        let _: (u64,) = session.row("CALL tx_stock_level(?, ?, ?)", input)?;
        Ok(())
    }
}
