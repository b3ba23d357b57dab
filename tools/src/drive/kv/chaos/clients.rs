//! Clients that change and read few keys, each as fast as it is answered but for a pause, at
//! whatever replica.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::history::{Kind, Operation};
use crate::drive::kv::resp::{Client, Reply};

const CLIENTS: usize = 8;
/// How long a connection or a reply may take.
const PATIENCE: Duration = Duration::from_secs(1);
/// Between two operations of a client.
const PAUSE: Duration = Duration::from_millis(3);
/// After a refusal.
const REFUSED: Duration = Duration::from_millis(10);
/// Keys are used for a while, so that the history of each is short enough to be judged.
const KEYS_LAST_MS: u64 = 2000;
const TEXTS: u32 = 4;
const COUNTERS: u32 = 3;
/// How often one operation is sent that is done once however often it is sent.
const TRIES: usize = 200;

/// Errors that say that a request was not done, and will not be (kv-commands.md).
const NOT_DONE: [&str; 5] = ["MOVED", "CLUSTERDOWN", "BUSY", "OOM", "LOADING"];

/// All clients.
pub struct Load {
    addresses: Vec<SocketAddr>,
    /// Whether writes go to any replica.
    forwards: bool,
    begun: Instant,
    ends: AtomicBool,
    unanswered_reads: AtomicU64,
}

/// How a request ended.
enum Ended {
    /// With an answer; None is nil.
    Answered(Option<String>),
    /// It was not done.
    Refused,
    /// Nobody knows.
    Unknown,
}

/// A client.
struct Worker<'a> {
    load: &'a Load,
    number: usize,
    random: StdRng,
    links: Vec<Option<Client>>,
    leader: usize,
    /// The number of its last value.
    next: u64,
    /// Its session of PERDURA.ONCE, and the number of the last operation in it.
    session: u64,
    once: u64,
    /// The value that it saw last of a key.
    seen: HashMap<String, String>,
    history: Vec<Operation>,
}

impl Load {
    /// Clients of replicas at these addresses, which pass requests on or not.
    pub fn new(addresses: &[SocketAddr], forwards: bool) -> Self {
        let (ends, unanswered_reads) = (AtomicBool::new(false), AtomicU64::new(0));
        Self { addresses: addresses.to_vec(), forwards, begun: Instant::now(), ends, unanswered_reads }
    }

    /// Microseconds since the begin.
    pub fn now_us(&self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    /// Reads that were sent and not answered. They change nothing, so they are in no history.
    pub fn unanswered_reads(&self) -> u64 {
        self.unanswered_reads.load(Ordering::Relaxed)
    }

    /// Runs all clients while `work` lasts. Returns the history of each.
    pub fn run(&self, seed: u64, work: impl FnOnce() -> Result<()>) -> (Vec<Vec<Operation>>, Result<()>) {
        std::thread::scope(|scope| {
            let work_of = |number: usize| scope.spawn(move || Worker::new(self, number, seed).run());
            let workers: Vec<_> = (0..CLIENTS).map(work_of).collect();
            let outcome = work();
            self.ends.store(true, Ordering::Relaxed);
            (workers.into_iter().map(|worker| worker.join().expect("no client panics")).collect(), outcome)
        })
    }
}

/// An answer as a text.
fn text(reply: Reply) -> Ended {
    match reply {
        Reply::Text(text) => Ended::Answered(Some(text)),
        Reply::Number(number) => Ended::Answered(Some(number.to_string())),
        Reply::Bytes(bytes) => Ended::Answered(Some(String::from_utf8_lossy(&bytes).into_owned())),
        Reply::None => Ended::Answered(None),
        Reply::Error(text) if text.starts_with("UNKNOWN") => Ended::Unknown,
        Reply::Error(text) if NOT_DONE.iter().any(|code| text.starts_with(code)) => Ended::Refused,
        reply @ (Reply::Error(_) | Reply::Many(_)) => panic!("an answer that no replica should give: {reply:?}"),
    }
}

impl<'a> Worker<'a> {
    fn new(load: &'a Load, number: usize, seed: u64) -> Self {
        let random = StdRng::seed_from_u64(seed.wrapping_mul(1000).wrapping_add(number as u64));
        let links = load.addresses.iter().map(|_| None).collect();
        let (seen, history) = (HashMap::new(), Vec::new());
        Self { load, number, random, links, leader: 0, next: 0, session: 0, once: 0, seen, history }
    }

    fn run(mut self) -> Vec<Operation> {
        while !self.load.ends.load(Ordering::Relaxed) {
            let (operation, is_once) = self.draw();
            self.execute(operation, is_once);
            std::thread::sleep(PAUSE);
        }
        self.history
    }

    /// Draws the next operation, and whether it is repeated until it is answered.
    fn draw(&mut self) -> (Operation, bool) {
        let age = self.load.now_us() / 1000 / KEYS_LAST_MS;
        let is_counter = self.random.random_ratio(COUNTERS, TEXTS + COUNTERS);
        let key = match is_counter {
            true => format!("count:{age}:{}", self.random.random_range(0..COUNTERS)),
            false => format!("text:{age}:{}", self.random.random_range(0..TEXTS)),
        };
        let kind = match (self.random.random_range(0..100), is_counter) {
            (0..40, _) => Kind::Get,
            (40..43, _) => Kind::Delete,
            (_, true) => Kind::Count,
            (43..55, false) => Kind::Set,
            (55..85, false) if self.seen.contains_key(&key) => Kind::Compare,
            (_, false) => Kind::Append,
        };
        self.next += 1;
        let argument = match kind {
            Kind::Set | Kind::Compare | Kind::Append => format!("{}.{};", self.number, self.next),
            Kind::Get | Kind::Delete | Kind::Count => String::new(),
        };
        let old = (kind == Kind::Compare).then(|| self.seen.get(&key).cloned().unwrap_or_default());
        let operation =
            Operation { client: self.number, key, kind, argument, old, call_us: self.load.now_us(), outcome: None };
        (operation, kind != Kind::Get && self.random.random_ratio(1, 4))
    }

    fn execute(&mut self, mut operation: Operation, is_once: bool) {
        let (id, number) = (format!("client{}.{}", self.number, self.session), (self.once + 1).to_string());
        let mut words = if is_once { vec!["PERDURA.ONCE", &id, &number] } else { Vec::new() };
        let (key, argument) = (operation.key.as_str(), operation.argument.as_str());
        let old = operation.old.as_deref().unwrap_or_default();
        match operation.kind {
            Kind::Get => words.extend(["GET", key]),
            Kind::Set => words.extend(["SET", key, argument]),
            Kind::Compare => words.extend(["SET", key, argument, "IFEQ", old]),
            Kind::Delete => words.extend(["DEL", key]),
            Kind::Append => words.extend(["APPEND", key, argument]),
            Kind::Count => words.extend(["INCR", key]),
        }
        let (mut was_unknown, mut tries) = (false, if is_once { TRIES } else { 1 });
        let answer = loop {
            let ended = self.send(&words, operation.kind == Kind::Get);
            tries -= 1;
            match ended {
                Ended::Answered(answer) => break Some(answer),
                Ended::Unknown => was_unknown = true,
                Ended::Refused => std::thread::sleep(REFUSED),
            }
            if tries == 0 {
                break None;
            }
        };
        match (is_once, answer.is_some(), was_unknown) {
            (true, true, _) => self.once += 1,
            // Whether the session was begun is not known.
            (true, false, true) => (self.session, self.once) = (self.session + 1, 0),
            _ => {}
        }
        match answer {
            Some(answer) => {
                if operation.kind == Kind::Get {
                    match &answer {
                        Some(found) => self.seen.insert(operation.key.clone(), found.clone()),
                        None => self.seen.remove(&operation.key),
                    };
                }
                operation.outcome = Some((self.load.now_us(), answer));
                self.history.push(operation);
            }
            None if was_unknown && operation.kind == Kind::Get => {
                self.load.unanswered_reads.fetch_add(1, Ordering::Relaxed);
            }
            None if was_unknown => self.history.push(operation),
            None => {}
        }
    }

    /// Sends a request: a read to any replica, else to the one that leads as far as is known; half
    /// of all to any where they are passed on.
    fn send(&mut self, words: &[&str], is_read: bool) -> Ended {
        let is_anywhere = is_read || self.load.forwards && self.random.random();
        let at = if is_anywhere { self.random.random_range(0..self.links.len()) } else { self.leader };
        let link = match &mut self.links[at] {
            Some(link) => link,
            none => match Client::connect_to(self.load.addresses[at], PATIENCE) {
                Ok(link) => none.insert(link),
                Err(_) => {
                    self.look_elsewhere(at);
                    return Ended::Refused;
                }
            },
        };
        match link.call(words) {
            Ok(Reply::Error(error)) if error.starts_with("MOVED") => {
                let address = error.rsplit(' ').next().and_then(|address| address.parse().ok());
                let place = self.load.addresses.iter().position(|one| Some(*one) == address);
                self.leader = place.unwrap_or(self.leader);
                Ended::Refused
            }
            Ok(reply) => {
                let ended = text(reply);
                if !matches!(ended, Ended::Answered(_)) {
                    self.look_elsewhere(at);
                }
                ended
            }
            Err(_) => {
                self.links[at] = None;
                self.look_elsewhere(at);
                Ended::Unknown
            }
        }
    }

    fn look_elsewhere(&mut self, at: usize) {
        if self.leader == at {
            self.leader = (at + self.random.random_range(1..self.links.len())) % self.links.len();
        }
    }
}
