//! The floor: bytes that go the way of a request and its reply, through threads that do nothing with them.
//!
//! The threads are as those of three servers: one for the leader, with all clients, one for each of two followers. Each looks for events for a while before it
//! sleeps. The first follower that answers is enough, as for a quorum.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::drive::{Found, all};
use super::relay::Relay;

/// Bytes each way: a SET of 10 and 10 bytes, its entry between replicas, and `+OK`.
const REQUEST: usize = 47;
const LETTER: usize = 180;
const ANSWER: usize = 100;
const REPLY: usize = 5;
const FOLLOWERS: usize = 2;
/// For how long a thread looks before it sleeps, as `raft.spin_us`.
const SPIN: Duration = Duration::from_micros(100);

/// The way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Client, leader, client.
    Two,
    /// Client, leader, follower, leader, client.
    Four,
    /// The same, where leader and follower are far from each other (relay.rs).
    FourLate,
}

/// One end of a connection, which counts whole messages.
struct End {
    stream: TcpStream,
    /// Bytes of a message that comes, and of one that goes.
    comes: usize,
    goes: usize,
    partial: usize,
}

impl End {
    fn new(stream: TcpStream, comes: usize, goes: usize) -> Result<Self> {
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, comes, goes, partial: 0 })
    }

    /// How many messages have come. `None` if it is closed.
    fn take(&mut self, scratch: &mut [u8]) -> Option<usize> {
        match self.stream.read(scratch) {
            Ok(0) => None,
            Ok(count) => {
                let all = self.partial + count;
                self.partial = all % self.comes;
                Some(all / self.comes)
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => Some(0),
            Err(_) => None,
        }
    }

    /// Sends so many messages.
    fn put(&mut self, count: usize, scratch: &[u8]) {
        if count > 0 {
            // Some thousand bytes always fit.
            let _ = self.stream.write_all(&scratch[..count * self.goes]);
        }
    }
}

/// Waits until one of the connections has something.
fn wait(ends: &[&End]) {
    let begun = Instant::now();
    let mut fds: Vec<PollFd<'_>> = ends.iter().map(|end| PollFd::new(&end.stream, PollFlags::IN)).collect();
    let none = Timespec { tv_sec: 0, tv_nsec: 0 };
    while begun.elapsed() < SPIN {
        if poll(&mut fds, Some(&none)).is_ok_and(|count| count > 0) {
            return;
        }
        std::thread::yield_now();
    }
    // An interruption is no harm: nothing is found then.
    let _ = poll(&mut fds, None);
}

/// Answers until the other side closes.
fn follow(mut leader: End) {
    let mut scratch = vec![0; 64 << 10];
    loop {
        wait(&[&leader]);
        match leader.take(&mut scratch) {
            Some(count) => leader.put(count, &scratch),
            None => return,
        }
    }
}

/// A follower as the leader sees it, and how many letters it has answered.
type Follower = (End, u64);

/// Passes on until all clients have gone.
fn lead(mut clients: Vec<End>, mut followers: Vec<Follower>) {
    let (mut scratch, mut asked, mut told) = (vec![0; 64 << 10], VecDeque::new(), 0);
    while !clients.is_empty() {
        let all: Vec<&End> = clients.iter().chain(followers.iter().map(|(end, _)| end)).collect();
        wait(&all);
        let mut letters = 0;
        let mut closed = Vec::new();
        for (place, client) in clients.iter_mut().enumerate() {
            match client.take(&mut scratch) {
                None => closed.push(place),
                Some(count) if !followers.is_empty() => {
                    letters += count;
                    asked.extend((0..count).map(|_| place));
                }
                Some(count) => client.put(count, &scratch),
            }
        }
        for (follower, answered) in &mut followers {
            follower.put(letters, &scratch);
            *answered += follower.take(&mut scratch).unwrap_or(0) as u64;
            while told < *answered {
                told += 1;
                if let Some(client) = asked.pop_front().and_then(|place: usize| clients.get_mut(place)) {
                    client.put(1, &scratch);
                }
            }
        }
        // All end at about the same time; what is under way then counts for nobody.
        if closed.len() == clients.len() || (!closed.is_empty() && asked.is_empty()) {
            closed.into_iter().rev().for_each(|place| drop(clients.remove(place)));
        }
    }
}

/// A connection whose other end is reached directly, or through a relay.
fn pair(is_late: bool) -> Result<(TcpStream, TcpStream, Option<Relay>)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let port = listener.local_addr()?.port();
    let relay = if is_late { Some(Relay::start(port)?) } else { None };
    let near = TcpStream::connect(("127.0.0.1", relay.as_ref().map_or(port, |relay| relay.port)))?;
    let (far, _) = listener.accept()?;
    Ok((near, far, relay))
}

/// So many clients for some time.
pub fn run(way: Way, clients: usize, length: Duration) -> Result<Found> {
    let (mut near, mut at_leader) = (Vec::new(), Vec::new());
    for _ in 0..clients {
        let (client, server, _) = pair(false)?;
        client.set_nodelay(true)?;
        near.push(client);
        at_leader.push(End::new(server, REQUEST, REPLY)?);
    }
    let (mut followers, mut at_followers, mut relays) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..if way == Way::Two { 0 } else { FOLLOWERS } {
        let (to, at, relay) = pair(way == Way::FourLate)?;
        followers.push((End::new(to, ANSWER, LETTER)?, 0));
        at_followers.push(End::new(at, LETTER, ANSWER)?);
        relays.extend(relay);
    }
    std::thread::scope(|scope| {
        at_followers.into_iter().for_each(|at| drop(scope.spawn(move || follow(at))));
        scope.spawn(move || lead(at_leader, followers));
        all(near, length, 1, |client| {
            let (mut bytes, asked) = ([0; REQUEST], Instant::now());
            client.write_all(&bytes)?;
            client.read_exact(&mut bytes[..REPLY])?;
            Ok(asked.elapsed())
        })
    })
}
