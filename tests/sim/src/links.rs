//! Connections on which replicas that follow forward requests to the leader: bytes in order, none
//! twice, none lost unless the connection ends. What was sent before the end of a connection may
//! still arrive.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use perdura_kv::wire::{Forward, Forwarded, Frames, get_forward, get_forwarded, put_forward, put_forwarded};
use perdura_pmem::sim::Random;

/// Steps after which a connection that brings nothing across is taken for lost.
const STEPS_OF_SILENCE: u64 = 60;

/// A connection.
pub(super) struct Link {
    pub(super) key: u64,
    /// Places of the follower and of the leader.
    pub(super) from: usize,
    pub(super) to: usize,
    /// Requests that were not sent, and those and the answers under way, with the step of arrival.
    outbox: VecDeque<Forward>,
    requests: VecDeque<(u64, BytesMut)>,
    answers: VecDeque<(u64, BytesMut)>,
    /// Since when nothing gets across.
    cut_since: Option<u64>,
    /// Whether the follower, or the leader, has it still.
    pub(super) is_open: (bool, bool),
}

impl Link {
    pub(super) fn new(key: u64, from: usize, to: usize) -> Self {
        let (outbox, requests, answers) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
        Self { key, from, to, outbox, requests, answers, cut_since: None, is_open: (true, true) }
    }

    /// Requests to be sent.
    pub(super) fn send(&mut self, forwards: Vec<Forward>) {
        self.outbox.extend(forwards);
    }

    /// An answer goes back.
    pub(super) fn answer(&mut self, answer: &Forwarded, arrives: u64) {
        let mut bytes = BytesMut::new();
        put_forwarded(answer, &mut bytes);
        self.answers.push_back((self.after_last(&self.answers, arrives), bytes));
    }

    fn after_last(&self, sent: &VecDeque<(u64, BytesMut)>, arrives: u64) -> u64 {
        sent.back().map_or(arrives, |(last, _)| arrives.max(*last))
    }

    /// A step in which bytes get across, or not. Returns whether the follower notices that the
    /// connection is lost.
    pub(super) fn advance(&mut self, now: u64, is_cut: bool, delay: u64, random: &mut Random) -> bool {
        if is_cut {
            let since = *self.cut_since.get_or_insert(now);
            return self.is_open.0 && since + STEPS_OF_SILENCE < now;
        }
        self.cut_since = None;
        if !self.is_open.1 {
            return self.is_open.0;
        }
        while self.is_open.0
            && let Some(forward) = self.outbox.pop_front()
        {
            let mut bytes = BytesMut::new();
            put_forward(&forward, &mut bytes);
            let arrives = self.after_last(&self.requests, now + 1 + random.below(delay + 1));
            self.requests.push_back((arrives, bytes));
        }
        false
    }

    /// The number of the first request that was not sent, when the follower gives the connection
    /// up.
    pub(super) fn give_up(&mut self) -> u64 {
        self.is_open.0 = false;
        self.answers.clear();
        let unsent = self.outbox.front().map_or(u64::MAX, |forward| forward.number);
        self.outbox.clear();
        unsent
    }

    /// The leader's end is gone.
    pub(super) fn lose_leader(&mut self) {
        self.is_open.1 = false;
        self.requests.clear();
    }

    /// The next request that has arrived.
    pub(super) fn take_request(&mut self, now: u64) -> Result<Option<Forward>, String> {
        if !self.is_open.1 || self.cut_since.is_some() {
            return Ok(None);
        }
        let arrived = take(&mut self.requests, now)?;
        arrived.map(|(kind, bytes)| get_forward(kind, bytes).map_err(|malformed| malformed.to_string())).transpose()
    }

    /// The next answer that has arrived.
    pub(super) fn take_answer(&mut self, now: u64) -> Result<Option<Forwarded>, String> {
        if !self.is_open.0 || self.cut_since.is_some() {
            return Ok(None);
        }
        let arrived = take(&mut self.answers, now)?;
        arrived.map(|(kind, bytes)| get_forwarded(kind, bytes).map_err(|malformed| malformed.to_string())).transpose()
    }

    /// Whether nothing can come over it any more.
    pub(super) fn is_over(&self) -> bool {
        !self.is_open.0 && (!self.is_open.1 || self.requests.is_empty())
    }
}

fn take(queue: &mut VecDeque<(u64, BytesMut)>, now: u64) -> Result<Option<(u8, Bytes)>, String> {
    if queue.front().is_none_or(|(arrives, _)| *arrives > now) {
        return Ok(None);
    }
    let Some((_, bytes)) = queue.pop_front() else { return Ok(None) };
    let mut frames = Frames::default();
    frames.input().unsplit(bytes);
    let frame = frames.next(usize::MAX).map_err(|broken| broken.to_string())?;
    frame.ok_or_else(|| "a frame that is not whole".to_owned()).map(Some)
}
