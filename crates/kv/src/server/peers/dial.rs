//! The connection by which messages go to another replica. It is made anew whenever it has ended.
//!
//! A message that cannot go now is dropped, for Raft repeats what it needs: while the link is down,
//! and when more than a bound waits to be sent. What waits is bounded by that, and one message.
//!
//! A link of the same kind takes requests of clients to the leader, and brings its answers back.
//! Requests that it has not sent are known by numbers when it ends; room `client` bounds them.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, Receiver, TryRecvError};

use mio::event::Event;
use mio::{Registry, Token};

use super::handshake::{Handshake, Hello, UNAUTHENTICATED_BYTES_MAX, get_handshake, put_handshake};
use crate::server::channel::Channel;
use crate::server::socket::Socket;
use crate::server::tls::TlsConnector;
use crate::wire::{
    FRAME_BYTES_MAX, Forward, Forwarded, Frames, PeerMessage, SendQueue, get_forwarded, put_forward, queue_peer_message,
};

/// Milliseconds until a connection that has failed is tried again, at first and at most.
const RETRY_MS: [u64; 2] = [50, 1000];
/// Milliseconds in which the other side must have answered.
const GREETING_MS: u64 = 3000;

/// How links are made.
pub(crate) struct DialSettings {
    /// First frame, but for the replica it is meant for.
    pub hello: Hello,
    /// Encryption.
    pub tls: Option<TlsConnector>,
    /// Bytes that wait, beyond which messages are dropped.
    pub queue_bytes_max: usize,
    /// Milliseconds that a connection may be without an answer.
    pub silence_ms: u32,
}

#[derive(Debug)]
enum State {
    /// Until a time.
    Down { until_ms: u64 },
    /// A name is looked up, which may wait, and so has a thread.
    Naming(Receiver<io::Result<SocketAddr>>),
    /// The hello is under way.
    Greeting { channel: Channel, since_ms: u64 },
    /// Messages go.
    Up(Channel),
}

/// Change of a link's state.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LinkEvent {
    /// Messages go.
    Up,
    /// They do not any more, and why.
    Down(String),
}

/// The link to a replica.
#[derive(Debug)]
pub(crate) struct Link {
    replica: u64,
    address: String,
    token: Token,
    state: State,
    retry_ms: u64,
    frames: Frames,
    output: SendQueue,
    /// Messages that went, and those that were dropped because too much waited.
    traffic: LinkTraffic,
    /// Why it is down, as it was logged last.
    logged: String,
    /// Requests that are under way, if it passes requests on.
    forwards: Option<Queue>,
}

/// Messages of links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LinkTraffic {
    /// Those that went.
    pub sent: u64,
    /// Those that were dropped because too much waited.
    pub dropped: u64,
}

impl std::ops::AddAssign for LinkTraffic {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.dropped += other.dropped;
    }
}

/// Requests that were put into a link's queue, and answers that have come.
#[derive(Debug, Default)]
struct Queue {
    /// Bytes that were put there since the link was made last.
    bytes: u64,
    /// The number of each request that is not known to be sent, and where it ends.
    ends: VecDeque<(u64, u64)>,
    answers: Vec<Forwarded>,
}

impl Queue {
    /// Forgets what was sent, given the number of bytes that were not.
    fn sent(&mut self, unsent: usize) {
        while self.ends.front().is_some_and(|(_, end)| end + unsent as u64 <= self.bytes) {
            self.ends.pop_front();
        }
    }
}

impl Link {
    /// A link to a replica at an address, which is down.
    pub(crate) fn new(replica: u64, address: String, token: Token) -> Self {
        let state = State::Down { until_ms: 0 };
        let (frames, output) = (Frames::default(), SendQueue::default());
        let (traffic, logged) = (LinkTraffic::default(), String::new());
        let retry_ms = RETRY_MS[0];
        Self { replica, address, token, state, retry_ms, frames, output, traffic, logged, forwards: None }
    }

    /// One by which requests are passed on.
    pub(crate) fn of_forwards(replica: u64, address: String, token: Token) -> Self {
        Self { forwards: Some(Queue::default()), ..Self::new(replica, address, token) }
    }

    /// The replica at its other end.
    pub(crate) fn replica(&self) -> u64 {
        self.replica
    }

    /// Where it goes.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Whether messages go.
    pub(crate) fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// Messages so far.
    pub(crate) fn traffic(&self) -> LinkTraffic {
        self.traffic
    }

    /// Puts a message into the queue, if the link is up and has room.
    pub(crate) fn send(&mut self, message: &PeerMessage, settings: &DialSettings) {
        if !self.is_up() {
            return;
        }
        if self.output.len() > settings.queue_bytes_max {
            self.traffic.dropped += 1;
            return;
        }
        queue_peer_message(message, &mut self.output);
        self.traffic.sent += 1;
    }

    /// Puts a request into the queue of a link that is up.
    pub(crate) fn pass(&mut self, forward: &Forward) {
        let Some(queue) = &mut self.forwards else { return };
        queue.sent(self.output.len());
        let before = self.output.len();
        put_forward(forward, self.output.copied());
        queue.bytes += (self.output.len() - before) as u64;
        queue.ends.push_back((forward.number, queue.bytes));
    }

    /// The first request of which not all was sent when the link ended, or now. All before it may
    /// have come to the other side.
    pub(crate) fn unsent(&mut self) -> u64 {
        let Some(queue) = &mut self.forwards else { return u64::MAX };
        if let State::Up(_) = self.state {
            queue.sent(self.output.len());
        }
        queue.ends.front().map_or(u64::MAX, |(number, _)| *number)
    }

    /// Answers that have come.
    pub(crate) fn take_answers(&mut self) -> Vec<Forwarded> {
        self.forwards.as_mut().map(|queue| std::mem::take(&mut queue.answers)).unwrap_or_default()
    }

    /// Sends what waits, as far as it goes.
    pub(crate) fn flush(&mut self, now_ms: u64) -> Option<LinkEvent> {
        let State::Up(channel) = &mut self.state else { return None };
        if self.output.len() == 0 {
            return None;
        }
        match channel.write(&mut self.output) {
            Ok(_) => None,
            Err(error) => self.fail(now_ms, error.to_string()),
        }
    }

    /// Looks at what is due: a new try, or the end of a try that takes too long.
    pub(crate) fn tick(&mut self, settings: &DialSettings, registry: &Registry, now_ms: u64) -> Option<LinkEvent> {
        let outcome = match &mut self.state {
            State::Down { until_ms } if *until_ms <= now_ms => self.begin(settings, registry, now_ms),
            State::Naming(found) => match found.try_recv() {
                Ok(Ok(address)) => self.connect(address, settings, registry, now_ms),
                Ok(Err(error)) => Err(error),
                Err(TryRecvError::Empty) => Ok(()),
                Err(TryRecvError::Disconnected) => Err(io::Error::other("the name was not looked up")),
            },
            State::Greeting { since_ms, .. } if now_ms - *since_ms > GREETING_MS => Err(io::ErrorKind::TimedOut.into()),
            _ => Ok(()),
        };
        outcome.err().and_then(|error| self.fail(now_ms, error.to_string()))
    }

    fn begin(&mut self, settings: &DialSettings, registry: &Registry, now_ms: u64) -> io::Result<()> {
        if let Ok(address) = self.address.parse() {
            return self.connect(address, settings, registry, now_ms);
        }
        let (sender, receiver) = mpsc::channel();
        let name = self.address.clone();
        self.state = State::Naming(receiver);
        let look_up = move || {
            let found = name.to_socket_addrs().and_then(|mut all| {
                all.next().ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, format!("{name} has no address")))
            });
            // Nobody waits for it any more if the link has gone.
            let _ = sender.send(found);
        };
        std::thread::Builder::new().name("name".into()).spawn(look_up).map(drop)
    }

    fn connect(
        &mut self,
        address: SocketAddr,
        settings: &DialSettings,
        registry: &Registry,
        now_ms: u64,
    ) -> io::Result<()> {
        let socket = Socket::connect(address)?;
        let tls = settings.tls.as_ref().map(|tls| tls.connection(&self.address)).transpose()?;
        let channel = Channel::new(socket, tls, registry, self.token)?;
        self.frames = Frames::default();
        self.output.clear();
        let hello = Hello { meant: self.replica, ..settings.hello.clone() };
        let frame = if self.forwards.is_some() { Handshake::Forwards(hello) } else { Handshake::Hello(hello) };
        put_handshake(&frame, self.output.copied());
        self.forwards = self.forwards.take().map(|_| Queue { bytes: self.output.len() as u64, ..Queue::default() });
        self.state = State::Greeting { channel, since_ms: now_ms };
        Ok(())
    }

    /// Something has happened to the socket.
    pub(crate) fn happened(
        &mut self,
        event: &Event,
        settings: &DialSettings,
        scratch: &mut [u8],
        now_ms: u64,
    ) -> Option<LinkEvent> {
        match self.go_on(event, settings, scratch) {
            Ok(false) => None,
            Ok(true) => {
                let State::Greeting { channel, .. } = std::mem::replace(&mut self.state, State::Down { until_ms: 0 })
                else {
                    return None;
                };
                self.state = State::Up(channel);
                self.retry_ms = RETRY_MS[0];
                self.logged.clear();
                Some(LinkEvent::Up)
            }
            Err(why) => self.fail(now_ms, why),
        }
    }

    /// Returns whether the other side has said welcome.
    fn go_on(&mut self, event: &Event, settings: &DialSettings, scratch: &mut [u8]) -> Result<bool, String> {
        let text = |error: io::Error| error.to_string();
        let (channel, greets) = match &mut self.state {
            State::Greeting { channel, .. } => (channel, true),
            State::Up(channel) => (channel, false),
            _ => return Ok(false),
        };
        channel.happened(event);
        if greets && let Some(error) = channel.socket().failure() {
            // It is not connected yet, or never will be.
            return if error.kind() == io::ErrorKind::NotConnected { Ok(false) } else { Err(error.to_string()) };
        }
        if greets {
            channel.socket().tune(Some(settings.silence_ms));
        }
        channel.write(&mut self.output).map_err(text)?;
        let mut is_welcome = false;
        while let Some(count) = channel.read(scratch).map_err(text)? {
            if count == 0 {
                return Err("the other side has closed the connection".into());
            }
            self.frames.input().extend_from_slice(&scratch[..count]);
            let wrong = |what: crate::wire::FrameError| format!("the other side sends {what}");
            let bytes_max = if greets || self.forwards.is_none() { UNAUTHENTICATED_BYTES_MAX } else { FRAME_BYTES_MAX };
            while let Some((kind, bytes)) = self.frames.next(bytes_max).map_err(wrong)? {
                if let (Some(queue), false) = (&mut self.forwards, greets)
                    && let Ok(answer) = get_forwarded(kind, bytes.clone())
                {
                    queue.answers.push(answer);
                    continue;
                }
                match get_handshake(kind, bytes).map_err(|malformed| wrong(malformed.into()))? {
                    Handshake::Welcome { cluster, replica } if greets => {
                        if (cluster, replica) != (settings.hello.cluster, self.replica) {
                            return Err(format!("it is replica {replica} of cluster {cluster:032x}"));
                        }
                        is_welcome = true;
                    }
                    Handshake::Refusal(why) => return Err(format!("refused: {why}")),
                    _ => return Err("the other side says what it must not".into()),
                }
            }
        }
        // An encrypted channel may have something to say back, or only now take what waits.
        channel.write(&mut self.output).map_err(text)?;
        Ok(is_welcome)
    }

    /// The link is down, and is tried again later. An event only if the reason is another than last
    /// time.
    fn fail(&mut self, now_ms: u64, why: String) -> Option<LinkEvent> {
        self.state = State::Down { until_ms: now_ms + self.retry_ms };
        self.retry_ms = (2 * self.retry_ms).min(RETRY_MS[1]);
        self.forwards.iter_mut().for_each(|queue| queue.sent(self.output.len()));
        self.output.clear();
        let is_new = why != self.logged;
        self.logged.clone_from(&why);
        is_new.then_some(LinkEvent::Down(why))
    }
}

#[cfg(test)]
mod tests {
    use super::{Channel, DialSettings, Hello, Link, PeerMessage, Socket, State, Token};
    use crate::wire::{Chunk, put_peer_message};
    use bytes::{Bytes, BytesMut};

    /// Hazard: a replica that is slow, or does not read at all, has the others keep what they have
    /// for it.
    #[test]
    fn messages_to_a_replica_that_does_not_read_are_dropped_beyond_the_bound() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let poll = mio::Poll::new().expect("a poll");
        let socket = Socket::connect(listener.local_addr().expect("an address")).expect("a socket");
        let channel = Channel::new(socket, None, poll.registry(), Token(1)).expect("a channel");
        let mut link = Link::new(2, String::new(), Token(1));
        link.state = State::Up(channel);
        let settings = DialSettings { hello: Hello::default(), tls: None, queue_bytes_max: 1 << 20, silence_ms: 1000 };
        let bytes = Bytes::from(vec![0; 100_000]);
        let message = PeerMessage::Chunk(Chunk { from: 1, to: 2, index: 1, term: 1, number: 0, is_last: false, bytes });
        let mut one = BytesMut::new();
        put_peer_message(&message, &mut one);
        for _ in 0..1000 {
            link.send(&message, &settings);
            let _ = link.flush(1);
            assert!(link.output.len() <= settings.queue_bytes_max + one.len(), "{}", link.output.len());
        }
        assert!(
            link.is_up() && link.traffic.dropped > 500 && link.traffic.sent + link.traffic.dropped == 1000,
            "{link:?}"
        );
        assert!(link.output.len() > settings.queue_bytes_max);
    }
}
