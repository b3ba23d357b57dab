//! Numbers of rows, and sizes, that the specification fixes (clauses 1.2 and 1.3).

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
