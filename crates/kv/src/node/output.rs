//! Output of a replica.

use raft::eraftpb::{Message, MessageType};

use crate::wire::PeerMessage;

/// Most entries of a message that others are added to.
const ENTRIES_MERGED_MAX: usize = 256;
/// Most bytes of data of a message that others are added to, roughly.
const BYTES_MERGED_MAX: usize = 256 << 10;

/// Outcome of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The entry is applied here, and on the media of a quorum.
    Applied,
    /// The applied state can be read now.
    Readable,
    /// The entry will never be applied: another is in its place.
    Never,
    /// It is not known whether the entry is, or will be, applied.
    Unknown,
    /// No leader has been found that answers.
    Unavailable,
}

/// A ticket that is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// The ticket, as it was given.
    pub ticket: u64,
    /// Its outcome.
    pub outcome: Outcome,
}

/// Why a request was not taken. It has changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rejection {
    /// Ask the leader, if it is not 0.
    NotLeader {
        /// The leader's id.
        leader: u64,
    },
    /// Too much is under way: try again.
    Busy,
    /// No entry can be that large.
    TooLarge,
    /// The store has no room for it.
    Full,
    /// The store has no room for it, but clears garbage away: it may have when
    /// `Node::collects` does not say so any more.
    MakesRoom,
}

/// Present role of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// It leads.
    Leader,
    /// It follows, and votes.
    Follower,
    /// It asks for votes.
    Candidate,
    /// It follows, and does not vote.
    Learner,
    /// It waits for a snapshot.
    Receiving,
}

/// How a replica stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// Its role.
    pub role: Role,
    /// The newest term it knows of.
    pub term: u64,
    /// The leader of that term, or 0.
    pub leader: u64,
    /// Last index that it knows to be committed.
    pub committed: u64,
    /// Last index that it has applied.
    pub applied: u64,
    /// Its last entry.
    pub last: u64,
    /// Whether it had no room for the last entries that came.
    pub is_stalled: bool,
}

/// Replicas that have an entry on their medium.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holders {
    /// Whether the replica that is asked for has.
    pub is_here: bool,
    /// Number of others that have, as far as they have said.
    pub others: usize,
    /// Number of other members.
    pub members: usize,
}

/// Messages to be sent and outcomes to be answered.
#[derive(Debug, Default)]
pub struct Output {
    /// To other replicas, in order.
    pub messages: Vec<PeerMessage>,
    /// Tickets that are done.
    pub done: Vec<Done>,
}

impl Output {
    /// Adds a message. Entries that follow those of the last message to the same replica are added
    /// to it.
    pub(super) fn send(&mut self, message: Message) {
        let last = self.messages.iter_mut().rev().find(|queued| queued.to() == message.to);
        if let Some(PeerMessage::Raft(last)) = last
            && follows(last, &message)
        {
            last.entries.extend(message.entries);
            last.commit = last.commit.max(message.commit);
            return;
        }
        self.messages.push(PeerMessage::Raft(message));
    }
}

fn follows(last: &Message, message: &Message) -> bool {
    let bytes = |message: &Message| message.entries.iter().map(|entry| entry.data.len()).sum::<usize>();
    let are_appends = [last, message].iter().all(|message| message.msg_type == MessageType::MsgAppend);
    are_appends
        && last.term == message.term
        && last.entries.last().is_some_and(|entry| entry.index == message.index && entry.term == message.log_term)
        && last.entries.len() < ENTRIES_MERGED_MAX
        && bytes(last) + bytes(message) <= BYTES_MERGED_MAX
}

#[cfg(test)]
mod tests {
    use super::{Message, MessageType, Output, PeerMessage};
    use raft::eraftpb::Entry;

    fn append(to: u64, index: u64, count: u64) -> Message {
        let entries: Vec<Entry> =
            (1..=count).map(|step| Entry { index: index + step, term: 3, ..Entry::default() }).collect();
        let msg_type = MessageType::MsgAppend;
        Message {
            to,
            index,
            term: 3,
            log_term: 3,
            commit: index,
            msg_type,
            entries: entries.into(),
            ..Message::default()
        }
    }

    #[test]
    fn entries_that_follow_go_in_one_message() {
        let mut output = Output::default();
        for message in [append(2, 5, 1), append(3, 5, 1), append(2, 6, 2), append(2, 8, 0), append(2, 9, 1)] {
            output.send(message);
        }
        let found = output.messages.iter().map(|message| match message {
            PeerMessage::Raft(message) => (message.to, message.index, message.entries.len(), message.commit),
            _ => panic!("only Raft's"),
        });
        assert_eq!(found.collect::<Vec<_>>(), [(2, 5, 3, 8), (3, 5, 1, 5), (2, 9, 1, 9)]);
    }
}
