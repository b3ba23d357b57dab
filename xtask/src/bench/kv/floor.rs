//! The floor: bytes that go the way of a request and its reply, through threads that do nothing with them.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use anyhow::Result;

use super::drive::{Found, found};

/// Bytes each way: a SET of 10 and 10 bytes, its entry between replicas, and `+OK`.
const REQUEST: usize = 47;
const LETTER: usize = 180;
const REPLY: usize = 5;

/// The way.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Hops {
    /// Client, leader, client.
    Two,
    /// Client, leader, follower, leader, client.
    Four,
}

fn pair() -> Result<(TcpStream, TcpStream)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let near = TcpStream::connect(listener.local_addr()?)?;
    let (far, _) = listener.accept()?;
    near.set_nodelay(true)?;
    far.set_nodelay(true)?;
    Ok((near, far))
}

/// Answers until the other side closes.
fn follow(mut leader: TcpStream) {
    let mut bytes = [0; LETTER];
    while leader.read_exact(&mut bytes).and_then(|()| leader.write_all(&bytes[..100])).is_ok() {}
}

fn lead(mut client: TcpStream, mut follower: Option<TcpStream>) {
    let mut bytes = [0; LETTER];
    while client.read_exact(&mut bytes[..REQUEST]).is_ok() {
        let asked = follower.as_mut().map(|follower| {
            follower.write_all(&bytes)?;
            follower.read_exact(&mut bytes[..100])
        });
        if asked.is_some_and(|asked| asked.is_err()) || client.write_all(&bytes[..REPLY]).is_err() {
            return;
        }
    }
}

/// One client for some time.
pub fn run(hops: Hops, length: Duration) -> Result<Found> {
    let (mut client, at_leader) = pair()?;
    let (to_follower, at_follower) = pair()?;
    std::thread::scope(|scope| {
        scope.spawn(move || follow(at_follower));
        scope.spawn(move || lead(at_leader, (hops == Hops::Four).then_some(to_follower)));
        let (mut waits, mut bytes, begun) = (Vec::with_capacity(1 << 16), [0; REQUEST], Instant::now());
        while begun.elapsed() < length {
            let asked = Instant::now();
            client.write_all(&bytes)?;
            client.read_exact(&mut bytes[..REPLY])?;
            waits.push(asked.elapsed().as_nanos() as u64);
        }
        drop(client);
        Ok(found(waits, 1, begun.elapsed()))
    })
}
