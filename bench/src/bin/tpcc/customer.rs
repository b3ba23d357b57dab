//! How Payment and Order-Status choose a customer: 60 of 100 by last name, the others by number
//! (clauses 2.5.1.2 and 2.6.1.2).

use crate::database::{Database, Tried};
use crate::keys;
use crate::rows::text;
use perdura_tpcc::Random;

/// Input of the user.
pub enum Customer {
    Number(u32),
    LastName([u8; 16]),
}

impl Customer {
    /// Chooses one.
    pub fn choose(random: &mut Random) -> Customer {
        match random.percent(60) {
            true => Customer::LastName(text(&random.last_name())),
            false => Customer::Number(random.customer()),
        }
    }

    /// The customer's number: of those with a name, the one in the middle by first name (clause
    /// 2.5.2.2).
    pub fn number<D: Database>(&self, database: &mut D, warehouse: u32, district: u32) -> Tried<u32> {
        let last = match self {
            Customer::Number(number) => return Ok(*number),
            Customer::LastName(last) => last,
        };
        let mut found = Vec::new();
        let end = |first, customer| keys::name(warehouse, district, last, first, customer);
        database.named(&end(&[0; 16], 0), &end(&[0xff; 16], 0xffff), &mut found)?;
        assert!(!found.is_empty(), "every name is that of a customer");
        Ok(found[(found.len() - 1) / 2])
    }
}
