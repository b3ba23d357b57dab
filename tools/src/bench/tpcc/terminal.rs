//! A terminal: one connection that runs one transaction after the other, in the mix of clause
//! 5.2.3, without waiting in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use perdura_tpcc::{DISTRICTS, Kind, Mix, Random};

use super::case::{Case, Form};
use super::delivery::Delivery;
use super::new_order::NewOrder;
use super::order_status::OrderStatus;
use super::payment::Payment;
use super::session::{self, Session};
use super::stock_level::StockLevel;
use crate::drive::server::Server;

/// A transaction that loses so many races never ends, for all that anybody can tell.
const TRIES: u32 = 1_000;

/// Work done by a terminal.
#[derive(Default)]
pub struct Done {
    /// Transactions of all kinds that ended, those rolled back by intent included.
    pub transactions: u64,
    /// New-Order transactions that ended.
    pub new_orders: u64,
    /// Those of them that were committed.
    pub orders: u64,
    /// Payments.
    pub payments: u64,
    /// Transactions tried again, each time counted.
    pub retries: u64,
    /// How long each New-Order took, retries included.
    pub new_order_ms: Vec<f64>,
}

impl Done {
    /// Adds another terminal's.
    pub fn add(&mut self, other: Self) {
        self.transactions += other.transactions;
        self.new_orders += other.new_orders;
        self.orders += other.orders;
        self.payments += other.payments;
        self.retries += other.retries;
        self.new_order_ms.extend(other.new_order_ms);
    }

    /// The time within which 99 of 100 New-Orders ended.
    pub fn p99_ms(&mut self) -> f64 {
        self.new_order_ms.sort_by(f64::total_cmp);
        self.new_order_ms.get(self.new_order_ms.len() * 99 / 100).copied().unwrap_or_default()
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
    fn name(&self) -> &'static str {
        match self {
            Self::NewOrder(_) => "New-Order",
            Self::Payment(_) => "Payment",
            Self::OrderStatus(_) => "Order-Status",
            Self::Delivery(_) => "Delivery",
            Self::StockLevel(_) => "Stock-Level",
        }
    }

    /// Runs the transaction statement by statement. Returns whether it was committed.
    fn execute(&self, session: &mut Session) -> Result<bool> {
        match self {
            Self::NewOrder(input) => input.execute(session),
            Self::Payment(input) => input.execute(session).map(|()| true),
            Self::OrderStatus(input) => input.execute(session).map(|()| true),
            Self::Delivery(input) => input.execute(session).map(|()| true),
            Self::StockLevel(input) => input.execute(session).map(|()| true),
        }
    }

    /// Has the server run the transaction. Returns whether it was committed.
    fn call(&self, session: &mut Session) -> Result<bool> {
        match self {
            Self::NewOrder(input) => input.call(session),
            Self::Payment(input) => input.call(session).map(|()| true),
            Self::OrderStatus(input) => input.call(session).map(|()| true),
            Self::Delivery(input) => input.call(session).map(|()| true),
            Self::StockLevel(input) => input.call(session).map(|()| true),
        }
    }
}

/// See the head of this file.
pub struct Terminal {
    session: Session,
    random: Random,
    form: Form,
    mix: Mix,
    /// Its warehouse, and the district whose stock it asks for.
    home: u32,
    district: u32,
    warehouses: u32,
}

impl Terminal {
    /// Opens the connection of terminal `number`, counted from 0. The terminals spread over
    /// warehouses and their districts.
    pub fn open(server: &Server, number: u32, case: Case, seed: u64) -> Result<Self> {
        let Case { warehouses, form, mix, .. } = case;
        let (home, district) = (number % warehouses + 1, number / warehouses % DISTRICTS + 1);
        let random = Random::new(seed.wrapping_mul(1_000).wrapping_add(u64::from(number)));
        Ok(Self { session: Session::open(server)?, random, form, mix, home, district, warehouses })
    }

    /// Runs transactions until `stop` is set. The one under way then is finished.
    pub fn run(mut self, stop: &AtomicBool) -> Result<Done> {
        let mut done = Done::default();
        while !stop.load(Ordering::Relaxed) {
            let input = self.choose();
            let begun = Instant::now();
            let committed = self.execute(&input, &mut done.retries)?;
            done.transactions += 1;
            match input {
                Input::NewOrder(_) => {
                    done.new_orders += 1;
                    done.orders += u64::from(committed);
                    done.new_order_ms.push(begun.elapsed().as_secs_f64() * 1e3);
                }
                Input::Payment(_) => done.payments += 1,
                _ => {}
            }
        }
        Ok(done)
    }

    fn choose(&mut self) -> Input {
        let (random, home, warehouses) = (&mut self.random, self.home, self.warehouses);
        match Kind::choose_in(&self.mix, random) {
            Kind::NewOrder => Input::NewOrder(NewOrder::choose(random, home, warehouses)),
            Kind::Payment => Input::Payment(Payment::choose(random, home, warehouses)),
            Kind::OrderStatus => Input::OrderStatus(OrderStatus::choose(random, home)),
            Kind::Delivery => Input::Delivery(Delivery::choose(random, home)),
            Kind::StockLevel => Input::StockLevel(StockLevel::choose(random, home, self.district)),
        }
    }

    /// Runs one transaction to its end. Returns whether it was committed.
    fn execute(&mut self, input: &Input, retries: &mut u64) -> Result<bool> {
        for _ in 0..TRIES {
            let ended = match self.form {
                Form::Statements => input.execute(&mut self.session),
                Form::Procedures => input.call(&mut self.session),
            };
            match ended {
                Ok(committed) => return Ok(committed),
                Err(error) if session::is_conflict(&error) => {
                    self.session.statement("ROLLBACK")?;
                    *retries += 1;
                }
                Err(error) => return Err(error).context(input.name()),
            }
        }
        ensure!(false, "a transaction was rolled back {TRIES} times");
        Ok(false)
    }
}
