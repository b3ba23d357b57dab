//! Drills of locks: cycles of waiters that must end in a victim, and a replica's workers, who must
//! commit in an order of their own.
//!
//! Nobody's wait ends by time unless it would have lasted for ever: the clock leaps only when all
//! threads wait.

use perdura_engine::{
    Client, Config, Description, Engine, Error, ErrorKind, Isolation, Killer, LockMode, Rid, Session, Table,
};
use perdura_pmem::Medium;
use perdura_pmem::sim::{Body, Random, Scheduler};
use perdura_pmem::sync::{Condvar, Mutex, yield_now};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Rows that all threads want.
const ROWS: u64 = 4;
/// Threads with transactions of their own.
const THREADS: u64 = 4;
/// Transactions of each.
const TRANSACTIONS: u64 = 6;
/// Transactions of the primary that the workers of a replica apply, and the number of workers.
const APPLIED: u64 = 14;
const WORKERS: u64 = 3;
/// Longer than any wait that ends.
const LONG: Duration = Duration::from_secs(1000);

/// A pool with rows that all threads want.
struct Ground {
    engine: Engine,
    table: Arc<Table>,
    rids: Vec<Rid>,
}

impl Ground {
    fn new(medium: Arc<dyn Medium>, config: Config) -> Result<Ground, Error> {
        let engine = Engine::open(medium, config)?;
        let table = engine.create_table("t", b"")?;
        let mut txn = engine.session(Isolation::ReadCommitted);
        let rids = (0..ROWS).map(|number| txn.insert(&table, &number.to_le_bytes())).collect::<Result<_, _>>()?;
        txn.commit()?;
        Ok(Ground { engine, table, rids })
    }

    fn session(&self) -> Session {
        let mut txn = self.engine.session(Isolation::ReadCommitted);
        txn.set_lock_wait_timeout(LONG);
        txn
    }

    fn row(&self, random: &mut Random) -> Rid {
        self.rids[random.below(ROWS) as usize]
    }

    fn nothing_is_left(&self) -> Result<(), String> {
        let counters = self.engine.counters();
        match (counters.locks_held, counters.locks_waited_for) {
            (0, 0) => Ok(()),
            (held, waited) => Err(format!("{held} locks are held and {waited} waited for when all is over")),
        }
    }
}

/// Transactions lock rows in any order, shared and exclusively, and raise what they hold; some lock
/// the table as a whole. A wait ends with the lock, or with a deadlock that was found.
pub fn cycles(seed: u64, medium: Arc<dyn Medium>, config: Config, scheduler: Scheduler) -> Result<(), String> {
    let ground = Ground::new(medium, config).map_err(|error| error.to_string())?;
    let mut bodies: Vec<Body<'_>> = Vec::new();
    for thread in 0..THREADS {
        let ground = &ground;
        bodies.push(Box::new(move || {
            let mut random = Random::new(seed * THREADS + thread);
            for _ in 0..TRANSACTIONS {
                let mut txn = ground.session();
                match lock_some(ground, &mut txn, &mut random) {
                    Ok(()) => drop(txn.commit().expect("the log has room")),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Deadlock, "{error}"),
                }
            }
        }));
    }
    scheduler.try_run(bodies).map_err(|failure| failure.to_string())?;
    ground.nothing_is_left()
}

fn lock_some(ground: &Ground, txn: &mut Session, random: &mut Random) -> Result<(), Error> {
    if random.one_in(6) {
        txn.set_isolation(Isolation::Serializable);
        txn.locks().lock_table(&ground.table, if random.one_in(2) { LockMode::Shared } else { LockMode::Exclusive })?;
    }
    for _ in 0..2 + random.below(3) {
        let rid = ground.row(random);
        match random.below(4) {
            0 => txn.update(&ground.table, rid, &random.next_u64().to_le_bytes())?,
            // Most requests go with the present holders, and queue behind one that does not.
            1 => drop(txn.locks().lock_row(&ground.table, rid, LockMode::Exclusive)?),
            _ => drop(txn.locks().lock_row(&ground.table, rid, LockMode::Shared)?),
        }
        (0..random.below(4)).for_each(|_| yield_now());
    }
    Ok(())
}

/// The order in which workers commit, as the server keeps it.
#[derive(Default)]
struct Order {
    state: Mutex<Turns>,
    changed: Condvar,
}

#[derive(Default)]
struct Turns {
    /// The transaction that commits next.
    next: u64,
    /// Transactions that must give way to an earlier one, and those of them whose waits nobody has
    /// ended yet.
    give_way: BTreeSet<u64>,
    to_kill: Vec<u64>,
    killers: BTreeMap<u64, Arc<Killer>>,
}

impl Order {
    /// Waits until it is the turn of transaction `number`. Returns false if it is to give way.
    fn await_turn(&self, number: u64) -> bool {
        let mut turns = self.state.lock();
        while turns.next != number && !turns.give_way.contains(&number) {
            assert!(self.changed.wait_for(&mut turns, 2 * LONG), "transaction {number} waits for its turn for ever");
        }
        turns.next == number
    }

    /// The server's thread: it ends the waits of those who must give way.
    fn serve(&self) {
        let mut turns = self.state.lock();
        while turns.next < APPLIED {
            match turns.to_kill.pop() {
                None => drop(self.changed.wait_for(&mut turns, 3 * LONG)),
                Some(number) => {
                    let killer = turns.killers.get(&number).cloned();
                    drop(turns);
                    if let Some(killer) = killer {
                        killer.kill();
                    }
                    turns = self.state.lock();
                }
            }
        }
    }
}

/// A worker as the engine sees it. Its context is one more than the transaction that it applies; a
/// session without a client has 0.
struct Applying {
    order: Arc<Order>,
    number: AtomicU64,
}

impl Client for Applying {
    fn context(&self) -> usize {
        self.number.load(Ordering::Relaxed) as usize + 1
    }

    fn conflict(&self, holder: usize) -> bool {
        let own = self.number.load(Ordering::Relaxed);
        let Some(holder) = (holder as u64).checked_sub(1).filter(|holder| *holder > own) else { return false };
        let mut turns = self.order.state.lock();
        if turns.give_way.insert(holder) {
            turns.to_kill.push(holder);
        }
        self.order.changed.notify_all();
        true
    }

    fn describe(&self) -> Description {
        Description::default()
    }
}

/// A replica: workers apply transactions beside each other and commit them in order, and a client
/// of the replica locks the same rows. A later transaction must never have an earlier one wait for
/// it, wherever it stands in a queue.
pub fn replica(seed: u64, medium: Arc<dyn Medium>, config: Config, scheduler: Scheduler) -> Result<(), String> {
    let ground = Ground::new(medium, config).map_err(|error| error.to_string())?;
    let (order, taken) = (Arc::new(Order::default()), AtomicU64::new(0));
    let mut bodies: Vec<Body<'_>> = Vec::new();
    for _ in 0..WORKERS {
        let (ground, order, taken) = (&ground, &order, &taken);
        bodies.push(Box::new(move || apply_all(ground, order, taken, seed)));
    }
    bodies.push(Box::new(|| order.serve()));
    bodies.push(Box::new(|| {
        let mut random = Random::new(seed ^ 0xc11e);
        while order.state.lock().next < APPLIED {
            let mut txn = ground.session();
            let rid = ground.row(&mut random);
            txn.locks()
                .lock_row(&ground.table, rid, LockMode::Exclusive)
                .unwrap_or_else(|error| panic!("the client: {error}"));
            (0..random.below(60)).for_each(|_| yield_now());
            txn.commit().expect("it has written nothing");
        }
    }));
    scheduler.try_run(bodies).map_err(|failure| failure.to_string())?;
    ground.nothing_is_left()
}

fn apply_all(ground: &Ground, order: &Arc<Order>, taken: &AtomicU64, seed: u64) {
    loop {
        let number = taken.fetch_add(1, Ordering::Relaxed);
        if number >= APPLIED {
            return;
        }
        let mut txn = ground.session();
        txn.set_client(Some(Arc::new(Applying { order: order.clone(), number: AtomicU64::new(number) })));
        order.state.lock().killers.insert(number, Arc::new(txn.killer()));
        while !apply(ground, order, &mut txn, number, seed) {
            txn.rollback().expect("nothing is ordered");
            order.state.lock().give_way.remove(&number);
            txn.start_statement();
        }
        let mut turns = order.state.lock();
        turns.killers.remove(&number);
        turns.next = number + 1;
        order.changed.notify_all();
    }
}

/// Applies a transaction. Returns false if it gives way.
fn apply(ground: &Ground, order: &Order, txn: &mut Session, number: u64, seed: u64) -> bool {
    let mut random = Random::new(seed ^ (number + 1) << 20);
    for _ in 0..1 + random.below(3) {
        match txn.update(&ground.table, ground.row(&mut random), &number.to_le_bytes()) {
            Ok(()) => {}
            Err(error) if [ErrorKind::Killed, ErrorKind::Deadlock].contains(&error.kind()) => return false,
            Err(error) => panic!("transaction {number}: {error}"),
        }
        yield_now();
    }
    if !order.await_turn(number) {
        return false;
    }
    txn.commit().expect("the log has room");
    true
}
