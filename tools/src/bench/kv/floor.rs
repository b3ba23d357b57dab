//! The floor: bytes that go the way of a request and its reply, through processes that do nothing
//! with them.
//!
//! The processes are as three servers: one for the leader, with all clients, one for each of two
//! followers, each with one thread that looks for events for a while before it sleeps. The first
//! follower that answers is enough, as for a quorum.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::drive::{Found, all};
use super::relay::Relay;
use crate::drive::kv::cluster::ending_with_us;
use crate::drive::kv::net::Net;

/// Bytes each way: a SET of 10 and 10 bytes, its entry between replicas, and `+OK`.
const REQUEST: usize = 47;
const LETTER: usize = 180;
const ANSWER: usize = 100;
const REPLY: usize = 5;
/// For how long a thread looks before it sleeps, as `raft.spin_us`.
const SPIN: Duration = Duration::from_micros(100);

/// The way: client, leader, client, or client, leader, follower, leader, client.
#[derive(Clone, Copy)]
pub struct Way {
    followers: usize,
    /// Of messages between leader and followers, by a relay.
    delay: Option<Duration>,
    /// Whether each process is at a node of a private network.
    has_nodes: bool,
}

impl Way {
    /// Without followers.
    pub const TWO: Way = Way { followers: 0, delay: None, has_nodes: false };
    /// With followers.
    pub const FOUR: Way = Way { followers: 2, delay: None, has_nodes: false };
    /// With followers, each process at a node of the private network.
    pub const NODES: Way = Way { has_nodes: true, ..Way::FOUR };

    /// The same, with a relay before each follower.
    pub fn late(self, delay: Duration) -> Way {
        Way { delay: Some(delay), ..self }
    }

    /// Where the process of a number runs, and the words that bring it there.
    fn place(self, number: usize) -> (Ipv4Addr, Vec<String>) {
        if self.has_nodes { (Net::address(number), Net::before(number)) } else { (Ipv4Addr::LOCALHOST, Vec::new()) }
    }

    /// Where relays are.
    fn between(self) -> Ipv4Addr {
        if self.has_nodes { Net::BRIDGE } else { Ipv4Addr::LOCALHOST }
    }
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

/// A follower as the leader sees it, and how many messages it has answered.
type Follower = (End, u64);

/// Passes on until all clients have gone.
fn lead(mut clients: Vec<End>, mut followers: Vec<Follower>) {
    let (mut scratch, mut asked, mut told) = (vec![0; 64 << 10], VecDeque::new(), 0);
    while !clients.is_empty() {
        let all: Vec<&End> = clients.iter().chain(followers.iter().map(|(end, _)| end)).collect();
        wait(&all);
        let mut messages = 0;
        let mut closed = Vec::new();
        for (place, client) in clients.iter_mut().enumerate() {
            match client.take(&mut scratch) {
                None => closed.push(place),
                Some(count) if !followers.is_empty() => {
                    messages += count;
                    asked.extend((0..count).map(|_| place));
                }
                Some(count) => client.put(count, &scratch),
            }
        }
        for (follower, answered) in &mut followers {
            follower.put(messages, &scratch);
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

/// Says at which port of a host it listens, and takes in so many.
fn take_in(host: Ipv4Addr, count: usize) -> Result<Vec<TcpStream>> {
    let listener = TcpListener::bind((host, 0))?;
    println!("{}", listener.local_addr()?.port());
    (0..count).map(|_| Ok(listener.accept()?.0)).collect()
}

/// Runs a process of the floor: `follow HOST`, or `lead HOST CLIENTS FOLLOWER...`, which are
/// addresses.
pub fn play(words: &[String]) -> Result<()> {
    let [part, host, rest @ ..] = words else { bail!("a part of the floor has no name or no host") };
    let host: Ipv4Addr = host.parse()?;
    match (part.as_str(), rest) {
        ("follow", []) => {
            take_in(host, 1)?.into_iter().try_for_each(|leader| End::new(leader, LETTER, ANSWER).map(follow))
        }
        ("lead", [clients, followers @ ..]) => {
            let follower = |address: &String| Ok((End::new(TcpStream::connect(address)?, ANSWER, LETTER)?, 0));
            let followers = followers.iter().map(follower).collect::<Result<_>>()?;
            let clients = take_in(host, clients.parse()?)?.into_iter().map(|client| End::new(client, REQUEST, REPLY));
            lead(clients.collect::<Result<_>>()?, followers);
            Ok(())
        }
        _ => bail!("the floor has no part {part} {rest:?}"),
    }
}

/// Starts a process of the floor at its place. Returns it with its address.
fn start((host, before): (Ipv4Addr, Vec<String>), part: &str, words: &[String]) -> Result<(Child, SocketAddr)> {
    let mut command = ending_with_us();
    command.args(before).arg(std::env::current_exe()?).args(["floor", part, &host.to_string()]).args(words);
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take().context("it has an output")?).read_line(&mut line)?;
    let port = line.trim().parse().with_context(|| format!("the floor's part {part} says no port, but {line:?}"))?;
    Ok((child, SocketAddr::from((host, port))))
}

/// So many clients for some time.
pub fn run(way: Way, clients: usize, length: Duration) -> Result<Found> {
    let (mut processes, mut relays, mut words) = (Vec::new(), Vec::new(), vec![clients.to_string()]);
    for number in 1..=way.followers {
        let (follower, mut address) = start(way.place(number), "follow", &[])?;
        if let Some(delay) = way.delay {
            let relay = Relay::start(way.between(), address, delay)?;
            address = relay.address;
            relays.push(relay);
        }
        processes.push(follower);
        words.push(address.to_string());
    }
    let (leader, address) = start(way.place(0), "lead", &words)?;
    processes.push(leader);
    let connect = |_| -> Result<TcpStream> {
        let client = TcpStream::connect(address)?;
        client.set_nodelay(true)?;
        Ok(client)
    };
    let near = (0..clients).map(connect).collect::<Result<Vec<_>>>()?;
    let found = all(near, length, 1, |client| {
        let (mut bytes, asked) = ([0; REQUEST], Instant::now());
        client.write_all(&bytes)?;
        client.read_exact(&mut bytes[..REPLY])?;
        Ok(asked.elapsed())
    })?;
    // Each ends when its other side has gone: the leader first.
    processes.iter_mut().rev().try_for_each(|process| process.wait().map(drop))?;
    Ok(found)
}
