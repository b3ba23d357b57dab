//! A wire that takes its time: bytes go on a fixed time after they have come, in each direction,
//! however many are under way.
//!
//! It stands in for the kernel's `netem`, which not every kernel has. It costs a copy and two wakes
//! a message besides the delay, so the floor goes through one too.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use anyhow::Result;

const BUFFER: usize = 64 << 10;

/// An address whose connections go on to another, later.
pub struct Relay {
    /// The address.
    pub address: SocketAddr,
    ends: Arc<AtomicBool>,
}

impl Relay {
    /// A relay at a host of this process to an address, which delays each message by so much.
    pub fn start(host: Ipv4Addr, to: SocketAddr, delay: Duration) -> Result<Relay> {
        let listener = TcpListener::bind((host, 0))?;
        let (address, ends) = (listener.local_addr()?, Arc::new(AtomicBool::new(false)));
        let ended = Arc::clone(&ends);
        std::thread::spawn(move || {
            for near in listener.incoming() {
                if ended.load(Ordering::Relaxed) {
                    return;
                }
                // A replica that cannot be reached is not reached through a relay either.
                if let (Ok(near), Ok(far)) = (near, TcpStream::connect(to)) {
                    let _ = carry(&near, &far, delay).and_then(|()| carry(&far, &near, delay));
                }
            }
        });
        Ok(Relay { address, ends })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        // Wakes it.
        let _ = TcpStream::connect(self.address);
    }
}

/// Carries what comes from one to the other, until either is closed.
fn carry(from: &TcpStream, to: &TcpStream, delay: Duration) -> std::io::Result<()> {
    let (mut from, to) = (from.try_clone()?, to.try_clone()?);
    to.set_nodelay(true)?;
    let (sender, receiver) = channel();
    std::thread::spawn(move || hand_out(to, &receiver));
    std::thread::spawn(move || {
        let mut buffer = vec![0; BUFFER];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            if sender.send((Instant::now() + delay, buffer[..count].to_vec())).is_err() {
                break;
            }
        }
        let _ = from.shutdown(Shutdown::Both);
    });
    Ok(())
}

fn hand_out(mut to: TcpStream, messages: &Receiver<(Instant, Vec<u8>)>) {
    // Else the kernel may let it sleep for 50 us longer. A longer delay is seen in the floor too.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    while let Ok((due, bytes)) = messages.recv() {
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}
