//! TPC-C as its specification (revision 5.11) fixes it for every driver: numbers of rows, random
//! values, the mix of transactions. `cargo xtask bench tpcc` runs it in SQL, the program `tpcc` of
//! perdura-bench through the engine's API.

#![forbid(unsafe_code)]

mod random;

pub use random::Random;

/// Items, and stock of each warehouse.
pub const ITEMS: u32 = 100_000;
/// Districts of a warehouse.
pub const DISTRICTS: u32 = 10;
/// Customers of a district.
pub const CUSTOMERS: u32 = 3_000;
/// Orders of a district before the first transaction: one for each customer.
pub const ORDERS: u32 = CUSTOMERS;
/// The first order of a district that is not delivered before the first transaction.
pub const FIRST_NEW_ORDER: u32 = 2_101;
/// An item that nobody sells.
pub const UNUSED_ITEM: u32 = ITEMS + 1;
/// Characters of the data kept of a customer with bad credit.
pub const DATA_LENGTH: usize = 500;

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

impl Kind {
    /// The kind of the next transaction, in the mix of clause 5.2.3.
    pub fn choose(random: &mut Random) -> Self {
        match random.number(1, 100) {
            1..=45 => Self::NewOrder,
            46..=88 => Self::Payment,
            89..=92 => Self::OrderStatus,
            93..=96 => Self::Delivery,
            _ => Self::StockLevel,
        }
    }
}
