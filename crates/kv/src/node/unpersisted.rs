//! Output that waits until its entries are durable.

use raft::eraftpb::Message;

/// Output of which a persist makes the entries durable.
#[derive(Default)]
struct Batch {
    /// Number of the last Ready whose persist Raft waits for.
    number: Option<u64>,
    /// Whether it makes members durable that are noted.
    has_members: bool,
    /// Messages that leave then.
    late: Vec<Message>,
}

/// Output that waits for the store.
#[derive(Default)]
pub(super) struct Unpersisted {
    /// Output of the next persist.
    next: Batch,
    /// Entries of the next persist.
    entries: usize,
    /// Output of the persist that has begun.
    under_way: Option<Batch>,
    /// Whether the store had no room to make them durable: the next tick tries again.
    is_blocked: bool,
}

impl Unpersisted {
    /// Whether something waits for a persist to begin.
    pub(super) fn is_any(&self) -> bool {
        self.next.number.is_some() || self.next.has_members
    }

    /// Whether the store is making something durable.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Whether Raft waits for a persist.
    pub(super) fn is_numbered(&self) -> bool {
        let has_number = |batch: &Batch| batch.number.is_some();
        has_number(&self.next) || self.under_way.as_ref().is_some_and(has_number)
    }

    /// Entries that no persist covers that has begun.
    pub(super) fn entries(&self) -> usize {
        self.entries
    }

    /// Whether the store had no room.
    pub(super) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// The store had no room, also for what was under way. `has_members`: also for noted members.
    pub(super) fn block(&mut self, has_members: bool) {
        self.join();
        self.is_blocked = true;
        self.next.has_members |= has_members;
    }

    /// Whether the store had no room, and is tried again now.
    pub(super) fn unblock(&mut self) -> bool {
        std::mem::take(&mut self.is_blocked)
    }

    /// Entries came.
    pub(super) fn add_entries(&mut self, count: usize) {
        self.entries += count;
    }

    /// Messages wait until what Raft calls by a number is durable.
    pub(super) fn wait(&mut self, number: u64, late: Vec<Message>) {
        self.next.number = Some(number);
        self.next.late.extend(late);
    }

    /// The store makes durable what there is, beside what it was making so.
    pub(super) fn begin(&mut self) {
        self.join();
        self.entries = 0;
        self.under_way = Some(std::mem::take(&mut self.next));
    }

    /// The persist has ended: returns Raft's number, if it waits for one, and the messages that
    /// have waited.
    pub(super) fn persisted(&mut self) -> (Option<u64>, Vec<Message>) {
        let Batch { number, late, .. } = self.under_way.take().unwrap_or_default();
        (number, late)
    }

    /// Puts output of the persist that has begun before that of the next.
    fn join(&mut self) {
        let Some(Batch { number, has_members, mut late }) = self.under_way.take() else { return };
        late.append(&mut self.next.late);
        let (number, has_members) = (self.next.number.or(number), self.next.has_members || has_members);
        self.next = Batch { number, has_members, late };
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, Unpersisted};

    fn to(to: u64) -> Message {
        Message { to, ..Message::default() }
    }

    fn waited((number, late): (Option<u64>, Vec<Message>)) -> (Option<u64>, Vec<u64>) {
        (number, late.into_iter().map(|message| message.to).collect())
    }

    /// Hazard: an acknowledgement of entries leaves with the persist before theirs.
    #[test]
    fn what_comes_while_a_persist_is_under_way_waits_for_the_next() {
        let mut unpersisted = Unpersisted::default();
        unpersisted.wait(5, vec![to(1)]);
        unpersisted.begin();
        assert!(!unpersisted.is_any() && unpersisted.is_under_way() && unpersisted.is_numbered());
        unpersisted.wait(6, vec![to(2)]);
        assert_eq!(waited(unpersisted.persisted()), (Some(5), vec![1]));
        assert!(unpersisted.is_any() && !unpersisted.is_under_way());
        unpersisted.begin();
        assert_eq!(waited(unpersisted.persisted()), (Some(6), vec![2]));
        assert!(!unpersisted.is_numbered());
    }

    #[test]
    fn what_had_no_room_goes_before_what_has_come_since() {
        let mut unpersisted = Unpersisted::default();
        unpersisted.wait(5, vec![to(1)]);
        unpersisted.begin();
        unpersisted.wait(6, vec![to(2)]);
        unpersisted.block(true);
        assert!(unpersisted.is_any() && !unpersisted.is_under_way() && unpersisted.unblock());
        unpersisted.begin();
        unpersisted.block(false);
        assert!(unpersisted.is_any(), "noted members have no number");
        unpersisted.begin();
        assert_eq!(waited(unpersisted.persisted()), (Some(6), vec![1, 2]));
    }

    /// One that waits covers what was under way too.
    #[test]
    fn a_persist_of_all_ends_both() {
        let mut unpersisted = Unpersisted::default();
        unpersisted.wait(5, vec![to(1)]);
        unpersisted.begin();
        unpersisted.begin();
        assert_eq!(waited(unpersisted.persisted()), (Some(5), vec![1]));
    }
}
