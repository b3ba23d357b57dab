//! New-Order (clause 2.4): a customer orders 5 to 15 items. One in a hundred names an item that
//! does not exist, and is rolled back.

use crate::database::{Database, Tried};
use crate::keys;
use crate::rows::{self, Customer, District, Item, Order, OrderLine, Stock, Warehouse};
use perdura_tpcc::{Random, UNUSED_ITEM};
use std::hint::black_box;

/// Lines of an order at most.
const LINES_MAX: usize = 15;

struct Line {
    item: u32,
    supplier: u32,
    quantity: u32,
}

/// Input of the user.
pub struct NewOrder {
    warehouse: u32,
    district: u32,
    customer: u32,
    /// By warehouse and item, so that two orders never wait for each other's stock in a circle.
    /// Only the last item may not exist.
    lines: Vec<Line>,
}

impl NewOrder {
    /// Chooses the input of a terminal of warehouse `home`.
    pub fn choose(random: &mut Random, home: u32, warehouses: u32) -> NewOrder {
        let (district, customer) = (random.district(), random.customer());
        let mut lines: Vec<Line> = (0..random.number(5, LINES_MAX as u32))
            .map(|_| {
                let supplier = if random.percent(1) { random.remote(home, warehouses) } else { home };
                Line { item: random.item(), supplier, quantity: random.number(1, 10) }
            })
            .collect();
        lines.sort_by_key(|line| (line.supplier, line.item));
        if random.percent(1) {
            lines.last_mut().expect("an order has a line").item = UNUSED_ITEM;
        }
        NewOrder { warehouse: home, district, customer, lines }
    }

    /// Runs the transaction. Returns whether it was committed.
    pub fn execute<D: Database>(&self, database: &mut D, now: u64) -> Tried<bool> {
        let prices = self.prices(database)?;
        if !D::TAKES_BACK && prices[..self.lines.len()].contains(&None) {
            return Ok(false);
        }
        let (warehouse, district) = (self.warehouse, self.district);
        let (mut tax, mut discount) = (0, 0);
        database.read(&[u64::from(warehouse)], |_, row: Option<&Warehouse>| {
            tax = row.expect("the warehouse is there").tax.get();
        })?;
        let customer = keys::customer(warehouse, district, self.customer);
        database.read(&[customer], |_, row: Option<&Customer>| {
            let row = row.expect("the customer is there");
            discount = row.discount.get();
            black_box((row.last, row.credit));
        })?;
        let (order, district_tax) = database.change(keys::district(warehouse, district), |row: &mut District| {
            let order = row.next_order.get();
            row.next_order.set(order + 1);
            (order, row.tax.get())
        })?;
        self.enter(database, order, now)?;
        let mut total = 0;
        for (number, (line, price)) in self.lines.iter().zip(prices).enumerate() {
            let Some(price) = price else {
                database.roll_back();
                return Ok(false);
            };
            total += self.enter_line(database, order, number as u8 + 1, line, price)?;
        }
        let rates = (10_000 - u64::from(discount)) * (10_000 + u64::from(tax) + u64::from(district_tax));
        black_box(u64::from(total) * rates / 100_000_000);
        database.commit()?;
        Ok(true)
    }

    /// The prices of the items; none for one that does not exist.
    fn prices<D: Database>(&self, database: &mut D) -> Tried<[Option<u32>; LINES_MAX]> {
        let (mut prices, mut items) = ([None; LINES_MAX], [0; LINES_MAX]);
        for (item, line) in items.iter_mut().zip(&self.lines) {
            *item = line.item.into();
        }
        database.read(&items[..self.lines.len()], |number, row: Option<&Item>| {
            prices[number] = row.map(|row| row.price.get());
            black_box(row.map(|row| (row.name, row.data)));
        })?;
        Ok(prices)
    }

    /// Enters the order.
    fn enter<D: Database>(&self, database: &mut D, order: u32, now: u64) -> Tried<()> {
        let (warehouse, district) = (self.warehouse as u16, self.district as u8);
        let is_local = self.lines.iter().all(|line| line.supplier == self.warehouse);
        database.insert(Order {
            warehouse: warehouse.into(),
            district,
            order: order.into(),
            customer: (self.customer as u16).into(),
            entered: now.into(),
            carrier: 0,
            lines: self.lines.len() as u8,
            is_local: is_local.into(),
        })?;
        database.insert(rows::NewOrder { warehouse: warehouse.into(), district, order: order.into() })
    }

    /// Takes an item from stock and enters its line. Returns the amount.
    fn enter_line<D: Database>(&self, database: &mut D, order: u32, number: u8, line: &Line, price: u32) -> Tried<u32> {
        let info = database.change(keys::stock(line.supplier, line.item), |row: &mut Stock| {
            let (left, wanted) = (row.quantity.get(), line.quantity as u16);
            row.quantity.set(if left >= wanted + 10 { left - wanted } else { left + 91 - wanted });
            row.ytd += line.quantity;
            row.orders += 1;
            row.remote += u32::from(line.supplier != self.warehouse);
            black_box(row.data);
            row.districts[self.district as usize - 1]
        })?;
        let amount = price * line.quantity;
        database.insert(OrderLine {
            warehouse: (self.warehouse as u16).into(),
            district: self.district as u8,
            order: order.into(),
            number,
            item: line.item.into(),
            supplier: (line.supplier as u16).into(),
            delivered: 0.into(),
            quantity: line.quantity as u8,
            amount: amount.into(),
            info,
        })?;
        Ok(amount)
    }
}
