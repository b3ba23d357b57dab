//! Fills the tables as the specification says (clause 4.3.3). The same seed gives the same rows to
//! each system.

use crate::database::{Database, Tried};
use crate::rows::{Address, Customer, District, History, Item, NewOrder, Order, OrderLine, Stock, Warehouse, text};
use perdura_tpcc::{CUSTOMERS, DISTRICTS, FIRST_NEW_ORDER, ITEMS, ORDERS, Random};

/// Time at which everything was loaded, in seconds since 1970.
const LOADED: u64 = 1_767_225_600;

/// Loads the items.
pub fn items<D: Database>(database: &mut D, random: &mut Random) -> Tried<()> {
    for item in 1..=ITEMS {
        database.insert(Item {
            item: item.into(),
            image: random.number(1, 10_000).into(),
            name: text(&random.text(14, 24)),
            price: random.number(100, 10_000).into(),
            data: text(&random.data()),
        })?;
    }
    database.commit()
}

/// Loads a warehouse and all that belongs to it.
pub fn warehouse<D: Database>(database: &mut D, random: &mut Random, warehouse: u32) -> Tried<()> {
    database.insert(Warehouse {
        id: (warehouse as u16).into(),
        ytd: 30_000_000.into(),
        tax: (random.number(0, 2000) as u16).into(),
        name: text(&random.text(6, 10)),
        address: address(random),
    })?;
    stock(database, random, warehouse)?;
    for district in 1..=DISTRICTS {
        database.insert(District {
            warehouse: (warehouse as u16).into(),
            district: district as u8,
            ytd: 3_000_000.into(),
            next_order: (ORDERS + 1).into(),
            tax: (random.number(0, 2000) as u16).into(),
            name: text(&random.text(6, 10)),
            address: address(random),
        })?;
        customers(database, random, warehouse, district)?;
        orders(database, random, warehouse, district)?;
        database.commit()?;
    }
    Ok(())
}

fn address(random: &mut Random) -> Address {
    Address {
        streets: [text(&random.text(10, 20)), text(&random.text(10, 20))],
        city: text(&random.text(10, 20)),
        state: text(&random.text(2, 2)),
        zip: text(&random.zip()),
    }
}

fn stock<D: Database>(database: &mut D, random: &mut Random, warehouse: u32) -> Tried<()> {
    for item in 1..=ITEMS {
        database.insert(Stock {
            warehouse: (warehouse as u16).into(),
            item: item.into(),
            quantity: (random.number(10, 100) as u16).into(),
            ytd: 0.into(),
            orders: 0.into(),
            remote: 0.into(),
            districts: std::array::from_fn(|_| text(&random.text(24, 24))),
            data: text(&random.data()),
        })?;
    }
    database.commit()
}

fn customers<D: Database>(database: &mut D, random: &mut Random, warehouse: u32, district: u32) -> Tried<()> {
    let (warehouse, district) = (warehouse as u16, district as u8);
    for customer in 1..=CUSTOMERS {
        database.insert(Customer {
            warehouse: warehouse.into(),
            district,
            customer: (customer as u16).into(),
            balance: (-1_000).into(),
            ytd_payment: 1_000.into(),
            payments: 1.into(),
            deliveries: 0.into(),
            discount: (random.number(0, 5000) as u16).into(),
            credit: *if random.percent(10) { b"BC" } else { b"GC" },
            credit_limit: 5_000_000.into(),
            first: text(&random.text(8, 16)),
            middle: *b"OE",
            last: text(&random.last_name_of(customer)),
            address: address(random),
            phone: text(&random.digits(16)),
            since: LOADED.into(),
            data: text(&random.text(300, 500)),
        })?;
        database.insert(History {
            customer_warehouse: warehouse.into(),
            customer_district: district,
            customer: (customer as u16).into(),
            warehouse: warehouse.into(),
            district,
            date: LOADED.into(),
            amount: 1_000.into(),
            data: text(&random.text(12, 24)),
        })?;
    }
    Ok(())
}

fn orders<D: Database>(database: &mut D, random: &mut Random, warehouse: u32, district: u32) -> Tried<()> {
    let (warehouse, district) = (warehouse as u16, district as u8);
    for (order, customer) in (1..=ORDERS).zip(random.permutation(CUSTOMERS)) {
        let (lines, is_delivered) = (random.number(5, 15) as u8, order < FIRST_NEW_ORDER);
        database.insert(Order {
            warehouse: warehouse.into(),
            district,
            order: order.into(),
            customer: (customer as u16).into(),
            entered: LOADED.into(),
            carrier: if is_delivered { random.number(1, 10) as u8 } else { 0 },
            lines,
            is_local: 1,
        })?;
        for number in 1..=lines {
            database.insert(OrderLine {
                warehouse: warehouse.into(),
                district,
                order: order.into(),
                number,
                item: random.number(1, ITEMS).into(),
                supplier: warehouse.into(),
                delivered: if is_delivered { LOADED } else { 0 }.into(),
                quantity: 5,
                amount: if is_delivered { 0 } else { random.number(1, 999_999) }.into(),
                info: text(&random.text(24, 24)),
            })?;
        }
        if !is_delivered {
            database.insert(NewOrder { warehouse: warehouse.into(), district, order: order.into() })?;
        }
    }
    Ok(())
}
