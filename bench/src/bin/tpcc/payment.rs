//! Payment (clause 2.5): a customer pays. 15 of 100 pay at a warehouse that is not theirs.

use crate::customer::Customer;
use crate::database::{Database, Tried};
use crate::keys;
use crate::rows::{self, District, History, Warehouse};
use perdura_tpcc::Random;
use std::hint::black_box;
use std::io::{Cursor, Write};

/// Input of the user.
pub struct Payment {
    warehouse: u32,
    district: u32,
    customer: Customer,
    customer_warehouse: u32,
    customer_district: u32,
    amount: u32,
}

impl Payment {
    /// Chooses the input of a terminal of warehouse `home`.
    pub fn choose(random: &mut Random, home: u32, warehouses: u32) -> Payment {
        let district = random.district();
        let (customer_warehouse, customer_district) =
            if random.percent(85) { (home, district) } else { (random.remote(home, warehouses), random.district()) };
        let amount = random.number(100, 500_000);
        let customer = Customer::choose(random);
        Payment { warehouse: home, district, customer, customer_warehouse, customer_district, amount }
    }

    /// Runs the transaction.
    pub fn execute<D: Database>(&self, database: &mut D, now: u64) -> Tried<()> {
        let (warehouse, district, amount) = (self.warehouse, self.district, i64::from(self.amount));
        let warehouse_name = database.change(u64::from(warehouse), |row: &mut Warehouse| {
            row.ytd += amount;
            black_box(row.address);
            row.name
        })?;
        let district_name = database.change(keys::district(warehouse, district), |row: &mut District| {
            row.ytd += amount;
            black_box(row.address);
            row.name
        })?;
        let customer = self.customer.number(database, self.customer_warehouse, self.customer_district)?;
        let key = keys::customer(self.customer_warehouse, self.customer_district, customer);
        database.change(key, |row: &mut rows::Customer| self.pay(row))?;
        let mut data = [b' '; 24];
        data[..10].copy_from_slice(&warehouse_name);
        data[14..].copy_from_slice(&district_name);
        database.insert(History {
            customer_warehouse: (self.customer_warehouse as u16).into(),
            customer_district: self.customer_district as u8,
            customer: (customer as u16).into(),
            warehouse: (warehouse as u16).into(),
            district: district as u8,
            date: now.into(),
            amount: self.amount.into(),
            data,
        })?;
        database.commit()
    }

    fn pay(&self, row: &mut rows::Customer) {
        row.balance -= i64::from(self.amount);
        row.ytd_payment += i64::from(self.amount);
        row.payments += 1;
        black_box((row.address, row.phone, row.discount));
        if &row.credit != b"BC" {
            return;
        }
        let mut history = Cursor::new([0; 64]);
        let (customer, district, warehouse) = (row.customer, self.customer_district, self.customer_warehouse);
        let at = (self.district, self.warehouse, self.amount);
        write!(history, "{customer} {district} {warehouse} {} {} {}|", at.0, at.1, at.2).expect("it is short");
        let (length, history) = (history.position() as usize, history.into_inner());
        let kept = row.data.len() - length;
        row.data.copy_within(..kept, length);
        row.data[..length].copy_from_slice(&history[..length]);
    }
}
