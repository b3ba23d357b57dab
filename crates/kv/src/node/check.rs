//! Checks of messages: properties that no message of a sound replica has. Raft would end the
//! process on some of them.
//!
//! A replica whose memory was lost and that has come back under its old id shows here too: a leader
//! believes that it has what it has not.

use raft::RawNode;
use raft::eraftpb::{ConfState, Entry, Message, MessageType};

use crate::store::{Log, is_of_other_version, is_sound};

/// Terms and indexes beyond this are not reached in the life of a cluster.
const NUMBER_MAX: u64 = 1 << 62;

/// Reason to drop a message, if there is one.
pub(super) fn wrong(raw: &RawNode<Log>, message: &Message) -> Option<&'static str> {
    let log = &raw.raft.raft_log;
    let numbers =
        [message.term, message.log_term, message.index, message.commit, message.commit_term, message.reject_hint];
    if numbers.into_iter().any(|number| number > NUMBER_MAX && number != u64::MAX) || message.term == u64::MAX {
        return Some("a number that is out of range");
    }
    // Raft takes one of no term for its own. Only a question about reading is sent without.
    if (message.term == 0) != (message.msg_type == MessageType::MsgReadIndex) {
        return Some("no term, or one where none belongs");
    }
    let is_late = message.term < raw.raft.term;
    match message.msg_type {
        MessageType::MsgAppend => {
            if message.index > NUMBER_MAX || !follow(message) {
                return Some("entries that do not follow");
            }
            // An entry that a store refuses would end the process.
            if !message.entries.iter().all(is_sound) {
                return Some("an entry that cannot be read");
            }
            let is_known = |index: u64, term: u64| index > log.committed || log.match_term(index, term);
            let first = log.first_index();
            let conflicts =
                message.entries.iter().any(|entry| entry.index >= first && !is_known(entry.index, entry.term));
            (!is_late && log.match_term(message.index, message.log_term) && conflicts)
                .then_some("entries in the place of committed ones")
        }
        MessageType::MsgSnapshot => {
            let metadata = message.get_snapshot().get_metadata();
            let is_sound = (1..=message.term).contains(&metadata.term) && (1..=NUMBER_MAX).contains(&metadata.index);
            let members_are_sound = are_sound(metadata.get_conf_state());
            // Raft would take it in the place of what is committed.
            let contradicts = metadata.index == log.committed && !log.match_term(metadata.index, metadata.term);
            (!is_sound || !members_are_sound || contradicts).then_some("a snapshot that no leader has")
        }
        // Nobody sends it: the leader is asked itself. A replica that does not lead would pass it
        // on.
        MessageType::MsgTransferLeader => Some("a wish to be leader"),
        MessageType::MsgHeartbeat if !is_late && message.commit > log.last_index() => {
            Some("a commit of entries that are not here")
        }
        MessageType::MsgAppendResponse if !message.reject && message.index > log.last_index() => {
            Some("an acknowledgement of entries that are not here")
        }
        MessageType::MsgReadIndex | MessageType::MsgReadIndexResp if message.entries.len() != 1 => {
            Some("a question about reading without a context")
        }
        MessageType::MsgPropose
        | MessageType::MsgHup
        | MessageType::MsgBeat
        | MessageType::MsgUnreachable
        | MessageType::MsgSnapStatus
        | MessageType::MsgCheckQuorum => Some("a message that a replica has for itself"),
        _ => None,
    }
}

/// The first entry of a message that another version of the program has made, which this one cannot
/// read.
pub(super) fn entry_of_other_version(message: &Message) -> Option<u64> {
    let entry = message.entries.iter().find(|entry| is_of_other_version(entry))?;
    (message.msg_type == MessageType::MsgAppend).then_some(entry.index)
}

/// Index up to which a leader takes its follower to have the log: it lets it commit no more than
/// what it has acknowledged.
pub(super) fn acknowledged(message: &Message) -> Option<u64> {
    (message.msg_type == MessageType::MsgHeartbeat && message.commit <= NUMBER_MAX).then_some(message.commit)
}

/// Whether the entries of a message follow each other and the one before, also by their terms. Raft
/// takes term 0 for that of an entry that is not there.
fn follow(message: &Message) -> bool {
    let mut before = message.log_term;
    let follows = |(entry, index): (&Entry, u64)| {
        let rises = (before.max(1)..=message.term).contains(&entry.term);
        before = entry.term;
        rises && entry.index == index
    };
    let is_first = message.index == 0;
    is_first == (message.log_term == 0)
        && message.log_term <= message.term
        && message.entries.iter().zip(message.index + 1..).all(follows)
}

/// Whether Raft takes these members: each once, and in one place.
fn are_sound(members: &ConfState) -> bool {
    let ConfState { voters, voters_outgoing, learners, learners_next, .. } = members;
    let is_set = |ids: &[u64]| {
        let mut sorted = ids.to_vec();
        sorted.sort_unstable();
        sorted.windows(2).all(|pair| pair[0] != pair[1]) && !ids.contains(&0)
    };
    let votes = |id: &u64| voters.contains(id) || voters_outgoing.contains(id);
    !voters.is_empty()
        && [voters, voters_outgoing, learners, learners_next].into_iter().all(|ids| is_set(ids))
        && !learners.iter().any(votes)
        && learners_next.iter().all(|id| voters_outgoing.contains(id) && !voters.contains(id))
}

/// Whether somebody asks for a vote that a promise not to give one binds: not in an election that
/// the leader has asked for.
pub(super) fn asks_for_vote(message: &Message) -> bool {
    let asks = [MessageType::MsgRequestVote, MessageType::MsgRequestPreVote].contains(&message.msg_type);
    asks && message.context != raft::CAMPAIGN_TRANSFER
}

/// Whether only a leader sends it.
pub(super) fn is_of_leader(message: &Message) -> bool {
    [MessageType::MsgHeartbeat, MessageType::MsgAppend, MessageType::MsgSnapshot].contains(&message.msg_type)
}

/// Up to which index the sender of a message has said that it has the log.
pub(super) fn taken_to(message: &Message) -> u64 {
    let says = message.msg_type == MessageType::MsgAppendResponse && !message.reject;
    if says { message.index } else { 0 }
}
