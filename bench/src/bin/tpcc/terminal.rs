//! A terminal: it runs one transaction after the other, in the mix of clause 5.2.3, without waiting
//! in between.

use crate::database::{Database, Tried};
use crate::delivery::Delivery;
use crate::new_order::NewOrder;
use crate::order_status::OrderStatus;
use crate::payment::Payment;
use crate::stock_level::StockLevel;
use perdura_tpcc::{Kind, Random};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

/// A transaction that loses so many races never ends, for all that anybody can tell.
const TRIES: u32 = 1_000;

/// Work done by a terminal.
#[derive(Clone, Copy, Default)]
pub struct Done {
    /// Transactions of all kinds that ended, those rolled back by intent included.
    pub transactions: u64,
    /// New-Orders committed.
    pub orders: u64,
    /// Payments committed.
    pub payments: u64,
    /// Transactions tried again, each time counted.
    pub retries: u64,
}

impl Done {
    /// Adds another's.
    pub fn add(&mut self, other: Done) {
        self.transactions += other.transactions;
        self.orders += other.orders;
        self.payments += other.payments;
        self.retries += other.retries;
    }
}

/// The input of one transaction. It is tried again with the same input.
enum Input {
    NewOrder(NewOrder),
    Payment(Payment),
    OrderStatus(OrderStatus),
    Delivery(Delivery),
    StockLevel(StockLevel),
}

impl Input {
    /// Runs the transaction. Returns whether it was committed.
    fn execute<D: Database>(&self, database: &mut D, now: u64) -> Tried<bool> {
        match self {
            Input::NewOrder(input) => return input.execute(database, now),
            Input::Payment(input) => input.execute(database, now),
            Input::OrderStatus(input) => input.execute(database),
            Input::Delivery(input) => input.execute(database, now),
            Input::StockLevel(input) => input.execute(database),
        }
        .map(|()| true)
    }
}

/// See the head of this file.
pub struct Terminal {
    random: Random,
    warehouses: u32,
    /// Its warehouse, if there is one for each terminal. Otherwise each transaction has any.
    home: Option<u32>,
}

impl Terminal {
    /// Terminal `number`, counted from 0, of `terminals`.
    pub fn new(number: u32, terminals: u32, warehouses: u32, seed: u64) -> Terminal {
        let random = Random::new(seed.wrapping_mul(1_000).wrapping_add(u64::from(number)));
        Terminal { random, warehouses, home: (terminals == warehouses).then_some(number + 1) }
    }

    /// Runs transactions until `stop` is set. The one under way then is finished.
    pub fn run<D: Database>(mut self, database: &mut D, stop: &AtomicBool) -> Done {
        let mut done = Done::default();
        while !stop.load(Ordering::Relaxed) {
            let input = self.choose();
            let committed = execute(&input, database, &mut done.retries);
            done.transactions += 1;
            match input {
                Input::NewOrder(_) => done.orders += u64::from(committed),
                Input::Payment(_) => done.payments += 1,
                _ => {}
            }
        }
        done
    }

    fn choose(&mut self) -> Input {
        let (random, warehouses) = (&mut self.random, self.warehouses);
        let kind = Kind::choose(random);
        let home = self.home.unwrap_or_else(|| random.number(1, warehouses));
        match kind {
            Kind::NewOrder => Input::NewOrder(NewOrder::choose(random, home, warehouses)),
            Kind::Payment => Input::Payment(Payment::choose(random, home, warehouses)),
            Kind::OrderStatus => Input::OrderStatus(OrderStatus::choose(random, home)),
            Kind::Delivery => Input::Delivery(Delivery::choose(random, home)),
            Kind::StockLevel => {
                let district = random.district();
                Input::StockLevel(StockLevel::choose(random, home, district))
            }
        }
    }
}

/// Runs one transaction to its end. Returns whether it was committed.
fn execute<D: Database>(input: &Input, database: &mut D, retries: &mut u64) -> bool {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    for _ in 0..TRIES {
        if let Ok(committed) = input.execute(database, now) {
            return committed;
        }
        database.roll_back();
        *retries += 1;
    }
    panic!("a transaction was rolled back {TRIES} times");
}
