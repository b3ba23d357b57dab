//! Fills the tables as the specification says (clause 4.3.3), with INSERTs of many rows each.

use std::fmt::Write;

use anyhow::Result;
use perdura_tpcc::{CUSTOMERS, DISTRICTS, FIRST_NEW_ORDER, ITEMS, ORDERS, Random};

use super::session::Session;

/// A statement is sent once it is this long.
const STATEMENT_BYTES: usize = 256 << 10;
const NOW: &str = "2026-01-01 00:00:00";

/// Rows of one table on their way into the server.
struct Rows<'a> {
    session: &'a mut Session,
    table: &'static str,
    text: String,
}

impl<'a> Rows<'a> {
    fn of(session: &'a mut Session, table: &'static str) -> Self {
        Self { session, table, text: String::with_capacity(STATEMENT_BYTES + 4096) }
    }

    /// Adds a row, given as its values with commas between them.
    fn add(&mut self, values: std::fmt::Arguments) -> Result<()> {
        if self.text.is_empty() {
            write!(self.text, "INSERT INTO {} VALUES ({values})", self.table)?;
        } else {
            write!(self.text, ",({values})")?;
        }
        if self.text.len() > STATEMENT_BYTES { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<()> {
        if !self.text.is_empty() {
            self.session.statement(&self.text)?;
            self.text.clear();
        }
        Ok(())
    }
}

/// Loads everything. The same seed gives the same rows.
pub fn run(session: &mut Session, warehouses: u32, seed: u64) -> Result<()> {
    let mut random = Random::new(seed);
    items(session, &mut random)?;
    for warehouse in 1..=warehouses {
        self::warehouse(session, &mut random, warehouse)?;
        stock(session, &mut random, warehouse)?;
        for district in 1..=DISTRICTS {
            customers(session, &mut random, warehouse, district)?;
            orders(session, &mut random, warehouse, district)?;
        }
    }
    Ok(())
}

fn items(session: &mut Session, random: &mut Random) -> Result<()> {
    let mut rows = Rows::of(session, "item");
    for item in 1..=ITEMS {
        let (image, name, price) = (random.number(1, 10_000), random.text(14, 24), random.number(100, 10_000));
        rows.add(format_args!("{item},{image},'{name}',{}.{:02},'{}'", price / 100, price % 100, random.data()))?;
    }
    rows.send()
}

/// Name, address and tax of a warehouse or a district.
fn place(random: &mut Random) -> String {
    format!(
        "'{}','{}','{}','{}','{}','{}',0.{:04}",
        random.text(6, 10),
        random.text(10, 20),
        random.text(10, 20),
        random.text(10, 20),
        random.text(2, 2),
        random.zip(),
        random.number(0, 2000)
    )
}

fn warehouse(session: &mut Session, random: &mut Random, warehouse: u32) -> Result<()> {
    let mut rows = Rows::of(session, "warehouse");
    rows.add(format_args!("{warehouse},{},300000.00", place(random)))?;
    rows.send()?;
    let mut rows = Rows::of(session, "district");
    for district in 1..=DISTRICTS {
        rows.add(format_args!("{district},{warehouse},{},30000.00,{}", place(random), ORDERS + 1))?;
    }
    rows.send()
}

fn stock(session: &mut Session, random: &mut Random, warehouse: u32) -> Result<()> {
    let mut rows = Rows::of(session, "stock");
    for item in 1..=ITEMS {
        let quantity = random.number(10, 100);
        let districts: Vec<String> = (0..DISTRICTS).map(|_| random.text(24, 24)).collect();
        rows.add(format_args!("{item},{warehouse},{quantity},'{}',0,0,0,'{}'", districts.join("','"), random.data()))?;
    }
    rows.send()
}

fn customers(session: &mut Session, random: &mut Random, warehouse: u32, district: u32) -> Result<()> {
    let mut rows = Rows::of(session, "customer");
    for customer in 1..=CUSTOMERS {
        let (first, last) = (random.text(8, 16), random.last_name_of(customer));
        let (streets, city) = ([random.text(10, 20), random.text(10, 20)], random.text(10, 20));
        let (state, zip, phone) = (random.text(2, 2), random.zip(), random.digits(16));
        let (credit, discount) = (if random.percent(10) { "BC" } else { "GC" }, random.number(0, 5000));
        rows.add(format_args!(
            "{customer},{district},{warehouse},'{first}','OE','{last}','{}','{}','{city}','{state}','{zip}','{phone}',\
             '{NOW}','{credit}',50000.00,0.{discount:04},-10.00,10.00,1,0,'{}'",
            streets[0],
            streets[1],
            random.text(300, 500)
        ))?;
    }
    rows.send()?;
    let mut rows = Rows::of(session, "history");
    for customer in 1..=CUSTOMERS {
        let data = random.text(12, 24);
        rows.add(format_args!("{customer},{district},{warehouse},{district},{warehouse},'{NOW}',10.00,'{data}'"))?;
    }
    rows.send()
}

fn orders(session: &mut Session, random: &mut Random, warehouse: u32, district: u32) -> Result<()> {
    let customers = random.permutation(CUSTOMERS);
    let lines: Vec<u32> = (0..ORDERS).map(|_| random.number(5, 15)).collect();
    let mut rows = Rows::of(session, "orders");
    for order in 1..=ORDERS {
        let (customer, lines) = (customers[order as usize - 1], lines[order as usize - 1]);
        let carrier = if order < FIRST_NEW_ORDER { random.number(1, 10).to_string() } else { "NULL".to_owned() };
        rows.add(format_args!("{order},{district},{warehouse},{customer},'{NOW}',{carrier},{lines},1"))?;
    }
    rows.send()?;
    let mut rows = Rows::of(session, "order_line");
    for order in 1..=ORDERS {
        for line in 1..=lines[order as usize - 1] {
            let (item, text) = (random.number(1, ITEMS), random.text(24, 24));
            let (delivered, cents) = match order < FIRST_NEW_ORDER {
                true => (format!("'{NOW}'"), 0),
                false => ("NULL".to_owned(), random.number(1, 999_999)),
            };
            rows.add(format_args!(
                "{order},{district},{warehouse},{line},{item},{warehouse},{delivered},5,{}.{:02},'{text}'",
                cents / 100,
                cents % 100
            ))?;
        }
    }
    rows.send()?;
    let mut rows = Rows::of(session, "new_order");
    for order in FIRST_NEW_ORDER..=ORDERS {
        rows.add(format_args!("{order},{district},{warehouse}"))?;
    }
    rows.send()
}
