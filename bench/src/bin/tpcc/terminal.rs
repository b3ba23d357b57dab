//! A terminal: it runs one transaction after the other, in the mix of clause 5.2.3, without waiting
//! in between.

use crate::database::{Database, Tried};
use crate::delivery::Delivery;
use crate::new_order::NewOrder;
use crate::order_status::OrderStatus;
use crate::payment::Payment;
use crate::stock_level::StockLevel;
use perdura_bench::measure::thread_time;
use perdura_tpcc::{Kind, Random};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A transaction that loses so many races never ends, for all that anybody can tell.
const TRIES: u32 = 1_000;

/// Names of the kinds of transactions.
pub const KINDS: [&str; 5] = ["new_order", "payment", "order_status", "delivery", "stock_level"];

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
    /// Number of the transactions of each of [`KINDS`], and how long they took.
    pub kinds: [(u64, Duration); KINDS.len()],
    /// Time that the terminal's thread had a core.
    pub cpu: Duration,
}

impl Done {
    /// Adds another's.
    pub fn add(&mut self, other: Done) {
        self.transactions += other.transactions;
        self.orders += other.orders;
        self.payments += other.payments;
        self.retries += other.retries;
        for ((count, took), (more, longer)) in self.kinds.iter_mut().zip(other.kinds) {
            (*count, *took) = (*count + more, *took + longer);
        }
        self.cpu += other.cpu;
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
    /// Number of its kind in [`KINDS`].
    fn kind(&self) -> usize {
        match self {
            Input::NewOrder(_) => 0,
            Input::Payment(_) => 1,
            Input::OrderStatus(_) => 2,
            Input::Delivery(_) => 3,
            Input::StockLevel(_) => 4,
        }
    }

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
        let (mut done, begun) = (Done::default(), thread_time());
        while !stop.load(Ordering::Relaxed) {
            let input = self.choose();
            let begun = Instant::now();
            let committed = execute(&input, database, &mut done.retries);
            let (count, took) = &mut done.kinds[input.kind()];
            (*count, *took) = (*count + 1, *took + begun.elapsed());
            done.transactions += 1;
            match input {
                Input::NewOrder(_) => done.orders += u64::from(committed),
                Input::Payment(_) => done.payments += 1,
                _ => {}
            }
        }
        done.cpu = thread_time().saturating_sub(begun);
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
