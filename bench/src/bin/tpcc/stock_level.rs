//! Stock-Level (clause 2.8): how many items of the last 20 orders of a district are scarce. It only
//! reads.

use crate::database::{Database, Tried};
use crate::keys;
use crate::rows::{District, OrderLine, Stock};
use perdura_tpcc::Random;
use std::hint::black_box;

/// Orders that are looked at.
const ORDERS: u32 = 20;

/// Input of the user.
pub struct StockLevel {
    warehouse: u32,
    district: u32,
    threshold: u16,
}

impl StockLevel {
    /// Chooses the input of a terminal of this warehouse and district.
    pub fn choose(random: &mut Random, warehouse: u32, district: u32) -> StockLevel {
        StockLevel { warehouse, district, threshold: random.number(10, 20) as u16 }
    }

    /// Runs the transaction.
    pub fn execute<D: Database>(&self, database: &mut D) -> Tried<()> {
        let (warehouse, district) = (self.warehouse, self.district);
        let mut next = 0;
        database.read(&[keys::district(warehouse, district)], |_, row: Option<&District>| {
            next = row.expect("the district is there").next_order.get();
        })?;
        let lines = |order| keys::line(keys::order(warehouse, district, order), 0);
        let mut stock = Vec::with_capacity(ORDERS as usize * 15);
        database.read_range(lines(next - ORDERS), lines(next), |row: &OrderLine| {
            stock.push(keys::stock(warehouse, row.item.get()));
        })?;
        stock.sort_unstable();
        stock.dedup();
        let mut scarce = 0;
        database.read(&stock, |_, row: Option<&Stock>| {
            scarce += u32::from(row.expect("the stock is there").quantity.get() < self.threshold);
        })?;
        black_box(scarce);
        database.commit()
    }
}
