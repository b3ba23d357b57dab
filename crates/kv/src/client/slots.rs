//! The replies of a connection in the order of its requests, some of which are not known yet.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::tickets::Stub;
use crate::resp::{Protocol, Reply};

/// Bytes that a request takes, roughly.
pub(super) fn weight(request: &[Bytes]) -> usize {
    request.iter().map(|argument| argument.len() + size_of::<Bytes>()).sum()
}

/// State of a reply.
#[derive(Debug)]
pub(super) enum State {
    /// It is known, and is given when its ticket is done. If nothing comes of it, the client may
    /// ask the leader for this hash slot.
    Held { reply: Reply, slot: u16 },
    /// A read, to be done on what is applied; whether it is in a batch that is asked for.
    Read { request: Vec<Bytes>, is_asked: bool },
    /// The request, with its length in bytes, was passed on to the leader, which has answered or
    /// not. If nothing comes of it, the client may ask for this hash slot.
    Passed { slot: u16, bytes: usize, said: Option<Reply> },
    /// It can be given.
    Answered(Reply),
}

#[derive(Debug)]
struct Slot {
    /// The protocol that the client spoke when it asked.
    protocol: Protocol,
    /// Whether the client wants no reply.
    is_mute: bool,
    /// Where in the connection's input it was asked.
    asked_at: u64,
    state: State,
}

/// The replies that are not written.
#[derive(Debug)]
pub(super) struct Slots {
    /// Number of the first slot.
    first: u64,
    queue: VecDeque<Slot>,
    /// Bytes of the replies that are known.
    bytes: usize,
    /// Slots that are reads, and bytes of their requests and of those that were passed on.
    reads: usize,
    read_bytes: usize,
    /// Slots that are held.
    held: usize,
    /// Slots whose requests were passed on.
    passed: usize,
}

impl Slots {
    /// No replies; the first will have this number.
    pub(super) fn new(first: u64) -> Self {
        Self { first, queue: VecDeque::new(), bytes: 0, reads: 0, read_bytes: 0, held: 0, passed: 0 }
    }

    /// The number of the next slot.
    pub(super) fn next(&self) -> u64 {
        self.first + self.queue.len() as u64
    }

    /// Number of replies that are not written.
    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Whether all replies are written.
    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Bytes of replies that are known and not written, roughly.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Bytes of the requests that are reads and wait, or were passed on, roughly.
    pub(super) fn read_bytes(&self) -> usize {
        self.read_bytes
    }

    /// Bytes of the input that came since the first request that waits, if a read does: that may
    /// keep their memory. `taken`: of all the input.
    pub(super) fn kept_bytes(&self, taken: u64) -> usize {
        let first = self.queue.front().filter(|_| self.has_reads());
        first.map_or(0, |slot| taken.saturating_sub(slot.asked_at) as usize)
    }

    /// Whether a reply waits for an entry that was evaluated.
    pub(super) fn has_held(&self) -> bool {
        self.held > 0
    }

    /// Whether the leader was asked for a reply.
    pub(super) fn has_passed(&self) -> bool {
        self.passed > 0
    }

    /// Whether a read waits.
    pub(super) fn has_reads(&self) -> bool {
        self.reads > 0
    }

    /// Adds a slot. Returns its number.
    pub(super) fn push(&mut self, protocol: Protocol, is_mute: bool, asked_at: u64, state: State) -> u64 {
        self.count(&state, true);
        self.queue.push_back(Slot { protocol, is_mute, asked_at, state });
        self.next() - 1
    }

    /// Puts another state in place of a slot's.
    pub(super) fn set(&mut self, number: u64, state: State) {
        let Some(at) = self.place(number) else { return };
        self.count(&state, true);
        let old = std::mem::replace(&mut self.queue[at].state, state);
        self.count(&old, false);
    }

    /// The state of a slot. `None` if it was written.
    pub(super) fn get_mut(&mut self, number: u64) -> Option<&mut State> {
        let at = self.place(number)?;
        Some(&mut self.queue[at].state)
    }

    /// Takes the request out of a slot that is a read, which another state is set in then.
    pub(super) fn take_read(&mut self, number: u64) -> Option<Vec<Bytes>> {
        let at = self.place(number)?;
        let State::Read { request, .. } = &mut self.queue[at].state else { return None };
        let request = std::mem::take(request);
        self.read_bytes = self.read_bytes.saturating_sub(weight(&request));
        Some(request)
    }

    /// The numbers of the reads, in order.
    pub(super) fn reads(&self) -> Vec<u64> {
        let numbered = self.queue.iter().zip(self.first..);
        numbered.filter(|(slot, _)| matches!(slot.state, State::Read { .. })).map(|(_, number)| number).collect()
    }

    /// A held reply can be given.
    pub(super) fn say(&mut self, number: u64) {
        let Some(at) = self.place(number) else { return };
        if let State::Held { reply, .. } = &mut self.queue[at].state {
            let reply = std::mem::replace(reply, Reply::Null);
            self.held -= 1;
            self.queue[at].state = State::Answered(reply);
        }
    }

    /// Writes what can be given. Returns how many.
    pub(super) fn write(&mut self, out: &mut BytesMut) -> usize {
        let mut count = 0;
        while let Some(Slot { state: State::Answered(_), .. }) = self.queue.front() {
            let Some(slot) = self.queue.pop_front() else { break };
            self.first += 1;
            self.count(&slot.state, false);
            if let State::Answered(reply) = &slot.state
                && !slot.is_mute
            {
                reply.write(slot.protocol, out);
            }
            count += 1;
        }
        count
    }

    fn place(&self, number: u64) -> Option<usize> {
        let distance = Stub::distance(self.first, number);
        usize::try_from(distance).ok().filter(|at| *at < self.queue.len())
    }

    fn count(&mut self, state: &State, comes: bool) {
        let (bytes, reads, held, read_bytes, passed) = match state {
            State::Held { reply, .. } => (reply.weight(), 0, 1, 0, 0),
            State::Read { request, .. } => (0, 1, 0, weight(request), 0),
            State::Passed { bytes, said, .. } => (said.as_ref().map_or(0, Reply::weight), 0, 0, *bytes, 1),
            State::Answered(reply) => (reply.weight(), 0, 0, 0, 0),
        };
        let change = |sum: &mut usize, by: usize| *sum = if comes { *sum + by } else { sum.saturating_sub(by) };
        change(&mut self.bytes, bytes);
        change(&mut self.reads, reads);
        change(&mut self.held, held);
        change(&mut self.read_bytes, read_bytes);
        change(&mut self.passed, passed);
    }
}

#[cfg(test)]
mod tests {
    use super::{BytesMut, Protocol, Reply, Slots, State};

    #[test]
    fn replies_leave_in_the_order_of_the_requests() {
        let mut slots = Slots::new((1 << 40) - 1);
        let held = slots.push(Protocol::Resp2, false, 0, State::Held { reply: Reply::Integer(1), slot: 0 });
        let read = slots.push(Protocol::Resp2, false, 0, State::Read { request: vec![], is_asked: false });
        slots.push(Protocol::Resp2, true, 0, State::Answered(Reply::Integer(3)));
        slots.push(Protocol::Resp3, false, 0, State::Answered(Reply::Null));
        let mut out = BytesMut::new();
        slots.set(read, State::Answered(Reply::Integer(2)));
        assert_eq!(slots.write(&mut out), 0);
        assert!(slots.has_held() && !slots.has_reads());
        slots.say(held & ((1 << 40) - 1));
        assert_eq!(slots.write(&mut out), 4);
        assert_eq!(&out[..], b":1\r\n:2\r\n_\r\n");
        assert_eq!((slots.bytes(), slots.is_empty()), (0, true));
        slots.say(held);
    }
}
