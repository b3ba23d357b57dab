//! The rows of the nine tables, packed, all of fixed length (specification, clause 1.3), and the
//! tables as ordered maps in DRAM.
//!
//! Money is whole cents, rates are ten-thousandths, 0 is NULL. Numbers have any alignment, so a
//! system reads a row where it lies.

use crate::keys::{self, Name};
use std::collections::BTreeMap;
use zerocopy::little_endian::{I64, U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Tables, and their numbers in [`Row::TABLE`].
pub const TABLES: [&str; 9] =
    ["warehouse", "district", "customer", "history", "new_order", "orders", "order_line", "item", "stock"];
/// Longest key of a second index.
pub const SECOND_KEY_MAX: usize = keys::NAME_BYTES;

/// A row of one of the tables.
pub trait Row: Copy + FromBytes + IntoBytes + KnownLayout + Immutable + Unaligned + 'static {
    /// Number of its table.
    const TABLE: usize;
    /// Indexes of its table: none, the primary key, or one more.
    const INDEXES: usize = 1;

    /// Its primary key.
    fn key(&self) -> u64;

    /// Writes its key in the second index to the beginning of `key`, and returns the length.
    fn second_key(&self, _key: &mut [u8; SECOND_KEY_MAX]) -> usize {
        0
    }

    /// Its table.
    fn map(tables: &Tables) -> &BTreeMap<u64, Self>;

    /// Its table, to be changed.
    fn map_mut(tables: &mut Tables) -> &mut BTreeMap<u64, Self>;

    /// Enters it into the second index, if there is one.
    fn enter(&self, _tables: &mut Tables) {}
}

/// The tables in DRAM.
#[derive(Default)]
pub struct Tables {
    warehouse: BTreeMap<u64, Warehouse>,
    district: BTreeMap<u64, District>,
    customer: BTreeMap<u64, Customer>,
    history: BTreeMap<u64, History>,
    new_order: BTreeMap<u64, NewOrder>,
    orders: BTreeMap<u64, Order>,
    order_line: BTreeMap<u64, OrderLine>,
    item: BTreeMap<u64, Item>,
    stock: BTreeMap<u64, Stock>,
    /// Customers by their names.
    pub by_name: BTreeMap<Name, ()>,
    /// Orders by their customers.
    pub by_customer: BTreeMap<u64, ()>,
}

/// Text of a column of fixed length, padded with zeros.
pub fn text<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    let mut column = [0; BYTES];
    column[..text.len()].copy_from_slice(text.as_bytes());
    column
}

macro_rules! row {
    ($number:literal $table:ident $row:ident { $($field:ident: $type:ty,)* } $($more:item)*) => {
        #[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
        #[repr(C)]
        pub struct $row { $(pub $field: $type,)* }

        impl Row for $row {
            const TABLE: usize = $number;
            fn map(tables: &Tables) -> &BTreeMap<u64, Self> {
                &tables.$table
            }
            fn map_mut(tables: &mut Tables) -> &mut BTreeMap<u64, Self> {
                &mut tables.$table
            }
            $($more)*
        }
    };
}

/// Where a warehouse, a district or a customer is.
#[derive(Clone, Copy, FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub struct Address {
    pub streets: [[u8; 20]; 2],
    pub city: [u8; 20],
    pub state: [u8; 2],
    pub zip: [u8; 9],
}

row! { 0 warehouse Warehouse { id: U16, ytd: I64, tax: U16, name: [u8; 10], address: Address, }
    fn key(&self) -> u64 {
        self.id.get().into()
    }
}

row! { 1 district District {
        warehouse: U16, district: u8, ytd: I64, next_order: U32, tax: U16, name: [u8; 10], address: Address,
    }
    fn key(&self) -> u64 {
        keys::district(self.warehouse.into(), self.district.into())
    }
}

row! { 2 customer Customer {
        warehouse: U16, district: u8, customer: U16, balance: I64, ytd_payment: I64, payments: U32, deliveries: U32,
        discount: U16, credit: [u8; 2], credit_limit: I64, first: [u8; 16], middle: [u8; 2], last: [u8; 16],
        address: Address, phone: [u8; 16], since: U64, data: [u8; 500],
    }
    const INDEXES: usize = 2;
    fn key(&self) -> u64 {
        keys::customer(self.warehouse.into(), self.district.into(), self.customer.into())
    }
    fn second_key(&self, key: &mut [u8; SECOND_KEY_MAX]) -> usize {
        *key = keys::name(self.warehouse.into(), self.district.into(), &self.last, &self.first, self.customer.into());
        key.len()
    }
    fn enter(&self, tables: &mut Tables) {
        let mut key = [0; SECOND_KEY_MAX];
        self.second_key(&mut key);
        tables.by_name.insert(key, ());
    }
}

row! { 3 history History {
        customer_warehouse: U16, customer_district: u8, customer: U16, warehouse: U16, district: u8, date: U64,
        amount: U32, data: [u8; 24],
    }
    const INDEXES: usize = 0;
    fn key(&self) -> u64 {
        unreachable!("history has no key")
    }
}

row! { 4 new_order NewOrder { warehouse: U16, district: u8, order: U32, }
    fn key(&self) -> u64 {
        keys::order(self.warehouse.into(), self.district.into(), self.order.into())
    }
}

row! { 5 orders Order {
        warehouse: U16, district: u8, order: U32, customer: U16, entered: U64, carrier: u8, lines: u8, is_local: u8,
    }
    const INDEXES: usize = 2;
    fn key(&self) -> u64 {
        keys::order(self.warehouse.into(), self.district.into(), self.order.into())
    }
    fn second_key(&self, key: &mut [u8; SECOND_KEY_MAX]) -> usize {
        let bytes = self.by_customer().to_be_bytes();
        key[..bytes.len()].copy_from_slice(&bytes);
        bytes.len()
    }
    fn enter(&self, tables: &mut Tables) {
        tables.by_customer.insert(self.by_customer(), ());
    }
}

row! { 6 order_line OrderLine {
        warehouse: U16, district: u8, order: U32, number: u8, item: U32, supplier: U16, delivered: U64, quantity: u8,
        amount: U32, info: [u8; 24],
    }
    fn key(&self) -> u64 {
        keys::line(keys::order(self.warehouse.into(), self.district.into(), self.order.into()), self.number.into())
    }
}

row! { 7 item Item { item: U32, image: U32, price: U32, name: [u8; 24], data: [u8; 50], }
    fn key(&self) -> u64 {
        self.item.into()
    }
}

row! { 8 stock Stock {
        warehouse: U16, item: U32, quantity: U16, ytd: U32, orders: U32, remote: U32, districts: [[u8; 24]; 10],
        data: [u8; 50],
    }
    fn key(&self) -> u64 {
        keys::stock(self.warehouse.into(), self.item.into())
    }
}

impl Order {
    fn by_customer(&self) -> u64 {
        let customer = keys::customer(self.warehouse.into(), self.district.into(), self.customer.into());
        keys::of_customer(customer, self.order.into())
    }
}
