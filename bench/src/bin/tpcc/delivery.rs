//! Delivery (clause 2.7): the oldest new order of each district of a warehouse is delivered, all in
//! one transaction. It runs at once, not queued, as most drivers have it.

use crate::database::{Database, Tried};
use crate::keys;
use crate::rows::{Customer, NewOrder, Order, OrderLine};
use perdura_tpcc::{DISTRICTS, Random};

/// Input of the user.
pub struct Delivery {
    warehouse: u32,
    carrier: u8,
}

impl Delivery {
    /// Chooses the input of a terminal of warehouse `home`.
    pub fn choose(random: &mut Random, home: u32) -> Delivery {
        Delivery { warehouse: home, carrier: random.number(1, 10) as u8 }
    }

    /// Runs the transaction.
    pub fn execute<D: Database>(&self, database: &mut D, now: u64) -> Tried<()> {
        for district in 1..=DISTRICTS {
            self.deliver(database, district, now)?;
        }
        database.commit()
    }

    /// Delivers the oldest order of a district, if one is left.
    fn deliver<D: Database>(&self, database: &mut D, district: u32, now: u64) -> Tried<()> {
        let orders = |order| keys::order(self.warehouse, district, order);
        let Some(order) = database.first_key::<NewOrder>(orders(0), orders(u32::MAX))? else { return Ok(()) };
        database.remove::<NewOrder>(order)?;
        let customer = database.change(order, |row: &mut Order| {
            row.carrier = self.carrier;
            row.customer.get()
        })?;
        let mut amount = 0;
        database.change_range(keys::line(order, 0), keys::line(order + 1, 0), |row: &mut OrderLine| {
            row.delivered = now.into();
            amount += i64::from(row.amount.get());
        })?;
        database.change(keys::customer(self.warehouse, district, customer.into()), |row: &mut Customer| {
            row.balance += amount;
            row.deliveries += 1;
        })
    }
}
