//! TPC-C as its specification (revision 5.11) fixes it for every driver: numbers of rows, random
//! values, the mix of transactions. `cargo xtask bench tpcc` runs it in SQL, the program `tpcc` of
//! perdura-bench through the engine's API.

#![forbid(unsafe_code)]

mod random;
mod scale;

pub use random::Random;
pub use scale::{CUSTOMERS, DATA_LENGTH, DISTRICTS, FIRST_NEW_ORDER, ITEMS, ORDERS, UNUSED_ITEM};

/// A kind of transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A customer orders 5 to 15 items (clause 2.4).
    NewOrder,
    /// A customer pays (clause 2.5).
    Payment,
    /// The state of a customer's last order (clause 2.6).
    OrderStatus,
    /// The oldest new order of each district is delivered (clause 2.7).
    Delivery,
    /// The scarce items among those of a district's last orders (clause 2.8).
    StockLevel,
}

/// Weights of the kinds of transactions, in their order.
pub type Mix = [u32; 5];

/// That of clause 5.2.3, in percent.
pub const MIX: Mix = [45, 43, 4, 4, 4];

impl Kind {
    const ALL: [Self; 5] = [Self::NewOrder, Self::Payment, Self::OrderStatus, Self::Delivery, Self::StockLevel];

    /// The kind of the next transaction, in the mix of clause 5.2.3.
    pub fn choose(random: &mut Random) -> Self {
        Self::choose_in(&MIX, random)
    }

    /// The same in another mix.
    pub fn choose_in(mix: &Mix, random: &mut Random) -> Self {
        let drawn = random.number(1, mix.iter().sum());
        let mut reached = 0;
        let found = Self::ALL.into_iter().zip(mix).find(|(_, weight)| {
            reached += **weight;
            drawn <= reached
        });
        found.expect("the weights make the sum").0
    }
}
