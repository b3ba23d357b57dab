//! How Payment and Order-Status choose a customer: 60 of 100 by last name, the others by number
//! (clauses 2.5.1.2 and 2.6.1.2).

use anyhow::{Result, ensure};
use perdura_tpcc::Random;

use super::session::Session;

/// Input of the user.
pub enum Customer {
    /// The number.
    Number(u32),
    /// The last name, which several may have.
    LastName(String),
}

impl Customer {
    /// Chooses one.
    pub fn choose(random: &mut Random) -> Self {
        if random.percent(60) { Self::LastName(random.last_name()) } else { Self::Number(random.customer()) }
    }

    /// The number and no name, or 0 and the name, as procedures take them.
    pub fn number_or_name(&self) -> (u32, &str) {
        match self {
            Self::Number(number) => (*number, ""),
            Self::LastName(last) => (0, last),
        }
    }

    /// The customer's number: of those with a name, the one in the middle by first name (clause
    /// 2.5.2.2).
    pub fn number(&self, session: &mut Session, warehouse: u32, district: u32) -> Result<u32> {
        let last = match self {
            Self::Number(number) => return Ok(*number),
            Self::LastName(last) => last,
        };
        let found: Vec<u32> = session.rows(
            "SELECT c_id FROM customer WHERE c_w_id = ? AND c_d_id = ? AND c_last = ? ORDER BY c_first",
            (warehouse, district, last),
        )?;
        ensure!(!found.is_empty(), "no customer of district {warehouse}/{district} is called {last}");
        Ok(found[(found.len() - 1) / 2])
    }
}
