//! The consistency conditions of the specification (clause 3.3.2), and the driver's own books.
//!
//! Condition 11 holds before the first transaction only, so it is left out.

use crate::database::Database;
use crate::keys;
use crate::rows::{Customer, District, History, NewOrder, Order, OrderLine, Row, Warehouse};
use crate::terminal::Done;
use perdura_tpcc::{CUSTOMERS, DISTRICTS, ORDERS};
use std::collections::HashMap;

/// Orders of a district, and what else belongs to it.
#[derive(Default)]
struct Place {
    newest: u32,
    /// Least and greatest of its new orders, and their number.
    new_orders: Option<(u32, u32, u32)>,
    lines_expected: u64,
    lines: u64,
    paid: i64,
}

/// An order.
#[derive(Default)]
struct Entered {
    customer: u64,
    is_delivered: bool,
    is_new: bool,
    lines_expected: u8,
    lines: u8,
    lines_delivered: u8,
    delivered: i64,
}

/// All rows, summed up.
#[derive(Default)]
struct Sums {
    places: HashMap<u64, Place>,
    orders: HashMap<u64, Entered>,
    /// Amounts of each customer: paid, delivered.
    customers: HashMap<u64, (i64, i64)>,
    payments: u64,
}

impl Sums {
    fn of<D: Database>(database: &mut D) -> Sums {
        let mut sums = Sums::default();
        database.each(|row: &Order| {
            let district = keys::district(row.warehouse.into(), row.district.into());
            let place = sums.places.entry(district).or_default();
            place.newest = place.newest.max(row.order.get());
            place.lines_expected += u64::from(row.lines);
            let customer = keys::customer(row.warehouse.into(), row.district.into(), row.customer.into());
            let (is_delivered, lines_expected) = (row.carrier != 0, row.lines);
            sums.orders.insert(row.key(), Entered { customer, is_delivered, lines_expected, ..Entered::default() });
        });
        database.each(|row: &NewOrder| {
            let place = sums.places.entry(row.key() >> 32).or_default();
            let order = row.order.get();
            let (least, most, count) = place.new_orders.unwrap_or((order, order, 0));
            place.new_orders = Some((least.min(order), most.max(order), count + 1));
            sums.orders.get_mut(&row.key()).expect("condition 5: a new order is an order").is_new = true;
        });
        database.each(|row: &OrderLine| {
            let key = row.key() >> 8;
            sums.places.entry(key >> 32).or_default().lines += 1;
            let order = sums.orders.get_mut(&key).expect("condition 6: a line belongs to an order");
            order.lines += 1;
            if row.delivered.get() != 0 {
                order.lines_delivered += 1;
                order.delivered += i64::from(row.amount.get());
            }
        });
        for order in sums.orders.values() {
            sums.customers.entry(order.customer).or_default().1 += order.delivered;
        }
        database.each(|row: &History| {
            let amount = i64::from(row.amount.get());
            let district = keys::district(row.warehouse.into(), row.district.into());
            sums.places.entry(district).or_default().paid += amount;
            let (warehouse, district) = (row.customer_warehouse.into(), row.customer_district.into());
            let customer = keys::customer(warehouse, district, row.customer.into());
            sums.customers.entry(customer).or_default().0 += amount;
            sums.payments += 1;
        });
        sums
    }

    /// Conditions 5 to 7.
    fn check_orders(&self) {
        for (key, order) in &self.orders {
            assert_ne!(order.is_delivered, order.is_new, "condition 5, order {key:#x}");
            assert_eq!(order.lines_expected, order.lines, "condition 6, order {key:#x}");
            let delivered = if order.is_delivered { order.lines } else { 0 };
            assert_eq!(order.lines_delivered, delivered, "condition 7, order {key:#x}");
        }
    }

    /// Conditions 2 to 4 and 9.
    fn check_district(&self, row: &District) {
        let key = row.key();
        let place = &self.places[&key];
        assert_eq!(row.next_order.get() - 1, place.newest, "condition 2, district {key:#x}");
        if let Some((least, most, count)) = place.new_orders {
            assert_eq!(most, place.newest, "condition 2, new orders of district {key:#x}");
            assert_eq!(most - least + 1, count, "condition 3, district {key:#x}");
        }
        assert_eq!(place.lines_expected, place.lines, "condition 4, district {key:#x}");
        assert_eq!(row.ytd.get(), place.paid, "condition 9, district {key:#x}");
    }

    /// Conditions 10 and 12.
    fn check_customer(&self, row: &Customer) {
        let key = row.key();
        let (paid, delivered) = self.customers[&key];
        assert_eq!(row.balance.get(), delivered - paid, "condition 10, customer {key:#x}");
        assert_eq!(row.balance.get() + row.ytd_payment.get(), delivered, "condition 12, customer {key:#x}");
    }
}

/// Panics if a condition is violated, or if there are other orders or payments than were loaded and
/// then acknowledged.
pub fn check<D: Database>(database: &mut D, warehouses: u32, done: Done) {
    let sums = Sums::of(database);
    sums.check_orders();
    let mut totals: HashMap<u64, i64> = HashMap::new();
    let (mut districts, mut customers) = (0, 0);
    database.each(|row: &District| {
        sums.check_district(row);
        *totals.entry(row.warehouse.get().into()).or_default() += row.ytd.get();
        districts += 1;
    });
    let mut found = 0;
    database.each(|row: &Warehouse| {
        let key = row.key();
        let paid: i64 = (1..=DISTRICTS).map(|number| sums.places[&keys::district(key as u32, number)].paid).sum();
        assert_eq!(row.ytd.get(), totals[&key], "condition 1, warehouse {key}");
        assert_eq!(row.ytd.get(), paid, "condition 8, warehouse {key}");
        found += 1;
    });
    database.each(|row: &Customer| {
        sums.check_customer(row);
        customers += 1;
    });
    assert_eq!((found, districts), (warehouses, warehouses * DISTRICTS), "warehouses and districts");
    assert_eq!(customers, warehouses * DISTRICTS * CUSTOMERS, "customers");
    let loaded = |each: u32| u64::from(warehouses * DISTRICTS * each);
    assert_eq!(sums.orders.len() as u64, loaded(ORDERS) + done.orders, "orders acknowledged");
    assert_eq!(sums.payments, loaded(CUSTOMERS) + done.payments, "payments acknowledged");
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::database::Database;
    use crate::keys;
    use crate::load;
    use crate::maps::Maps;
    use crate::rows::{Customer, District, Order, OrderLine, Warehouse};
    use crate::terminal::{Done, Terminal};
    use perdura_tpcc::Random;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    /// Spoils the tables in one way.
    type Spoil = fn(&mut Maps);

    fn change<R: crate::rows::Row>(maps: &mut Maps, key: u64, edit: impl FnOnce(&mut R)) {
        maps.change(key, edit).expect("the row is there");
    }

    /// A check that finds nothing would let any lost update pass.
    #[test]
    fn every_condition_finds_what_violates_it() {
        let (mut maps, stop) = (Maps::default(), AtomicBool::new(false));
        load::items(&mut maps, &mut Random::new(1)).expect("nobody else is there");
        load::warehouse(&mut maps, &mut Random::new(2), 1).expect("nobody else is there");
        let done = std::thread::scope(|scope| {
            let running = scope.spawn(|| Terminal::new(0, 1, 1, 3).run(&mut maps, &stop));
            std::thread::sleep(Duration::from_millis(50));
            stop.store(true, std::sync::atomic::Ordering::Relaxed);
            running.join().expect("a terminal does not panic")
        });
        assert!(done.orders > 0 && done.payments > 0);
        check(&mut maps, 1, done);
        let spoilt: [(&str, Spoil, Spoil); 7] = [
            ("condition 1,", |maps| pay(maps, 1), |maps| pay(maps, -1)),
            ("condition 2,", |maps| skip(maps, 1), |maps| skip(maps, -1)),
            ("condition 5,", |maps| carry(maps, 0), |maps| carry(maps, 1)),
            ("condition 7,", |maps| deliver(maps, 0), |maps| deliver(maps, 1)),
            ("condition 9,", |maps| pay_district(maps, 1), |maps| pay_district(maps, -1)),
            ("condition 10,", |maps| owe(maps, 1, 0), |maps| owe(maps, -1, 0)),
            ("condition 12,", |maps| owe(maps, 0, 1), |maps| owe(maps, 0, -1)),
        ];
        let spoilt_keys = (keys::district(1, 3), keys::customer(1, 4, 5), keys::order(1, 2, 7));
        assert_eq!(spoilt_keys, (DISTRICT, CUSTOMER, ORDER));
        for (condition, spoil, mend) in spoilt {
            spoil(&mut maps);
            let found = catch_unwind(AssertUnwindSafe(|| check(&mut maps, 1, done))).expect_err(condition);
            let text = found.downcast_ref::<String>().expect("a message");
            assert!(text.contains(condition), "{condition} {text}");
            mend(&mut maps);
        }
        let lost = Done { orders: done.orders + 1, ..done };
        assert!(catch_unwind(AssertUnwindSafe(|| check(&mut maps, 1, lost))).is_err(), "an order is lost");
        check(&mut maps, 1, done);
    }

    const DISTRICT: u64 = 1 << 8 | 3;
    const CUSTOMER: u64 = (1 << 8 | 4) << 16 | 5;
    const ORDER: u64 = (1 << 8 | 2) << 32 | 7;

    fn pay(maps: &mut Maps, cents: i64) {
        change(maps, 1, |row: &mut Warehouse| row.ytd += cents);
    }

    fn pay_district(maps: &mut Maps, cents: i64) {
        change(maps, DISTRICT, |row: &mut District| row.ytd += cents);
    }

    fn skip(maps: &mut Maps, orders: i32) {
        change(maps, DISTRICT, |row: &mut District| {
            row.next_order.set(row.next_order.get().wrapping_add_signed(orders));
        });
    }

    fn carry(maps: &mut Maps, carrier: u8) {
        change(maps, ORDER, |row: &mut Order| row.carrier = carrier);
    }

    fn deliver(maps: &mut Maps, at: u64) {
        change(maps, keys::line(ORDER, 1), |row: &mut OrderLine| row.delivered.set(at));
    }

    fn owe(maps: &mut Maps, balance: i64, paid: i64) {
        change(maps, CUSTOMER, |row: &mut Customer| {
            row.balance += balance;
            row.ytd_payment += paid;
        });
    }
}
