//! Order-Status (clause 2.6): what has become of a customer's last order. It only reads.

use crate::customer::Customer;
use crate::database::{Database, Tried};
use crate::keys;
use crate::rows::{self, Order, OrderLine};
use perdura_tpcc::Random;
use std::hint::black_box;

/// Input of the user.
pub struct OrderStatus {
    warehouse: u32,
    district: u32,
    customer: Customer,
}

impl OrderStatus {
    /// Chooses the input of a terminal of warehouse `home`.
    pub fn choose(random: &mut Random, home: u32) -> OrderStatus {
        OrderStatus { warehouse: home, district: random.district(), customer: Customer::choose(random) }
    }

    /// Runs the transaction.
    pub fn execute<D: Database>(&self, database: &mut D) -> Tried<()> {
        let (warehouse, district) = (self.warehouse, self.district);
        let customer = self.customer.number(database, warehouse, district)?;
        let key = keys::customer(warehouse, district, customer);
        database.read(&[key], |_, row: Option<&rows::Customer>| {
            let row = row.expect("the customer is there");
            black_box((row.balance, row.first, row.middle, row.last));
        })?;
        let order = database.last_order(keys::of_customer(key, 0), keys::of_customer(key, u32::MAX))?;
        let order = keys::order(warehouse, district, order.expect("every customer has ordered"));
        let (mut expected, mut found) = (0, 0);
        database.read(&[order], |_, row: Option<&Order>| {
            let row = row.expect("the order is there");
            expected = row.lines.into();
            black_box((row.entered, row.carrier));
        })?;
        database.read_range(keys::line(order, 0), keys::line(order + 1, 0), |row: &OrderLine| {
            found += 1;
            black_box((row.item, row.supplier, row.quantity, row.amount, row.delivered));
        })?;
        assert_eq!(found, expected, "lines of order {order:#x}");
        database.commit()
    }
}
