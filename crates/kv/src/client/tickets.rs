//! Meaning of a ticket of the node: a place in a connection's replies, a batch of reads, or upkeep.
//!
//! | bits | |
//! |---|---|
//! | 63 | 1: not a client's |
//! | 62, 61 | 0 a place, 1 a batch, 2 upkeep, 3 users |
//! | 60..40 | of a place: the connection's token |
//! | 39..0 | the number of the place, or of the batch |

const KIND_SHIFT: u32 = 61;
const TOKEN_SHIFT: u32 = 40;
const NUMBER_MASK: u64 = (1 << TOKEN_SHIFT) - 1;
/// Most connections of clients, and most requests that others have passed on. A token is below
/// twice that.
pub(super) const TOKENS_MAX: usize = 1 << 20;

/// Meaning of a ticket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stub {
    /// The reply of a connection at a place.
    Place { token: u32, number: u64 },
    /// A batch of reads.
    Batch(u64),
    /// Nobody waits for it.
    Upkeep,
    /// Whether this replica has caught up, so that its users can be known.
    Users,
    /// Somebody else's.
    Foreign,
}

impl Stub {
    /// The ticket.
    pub(super) fn ticket(self) -> u64 {
        match self {
            Stub::Place { token, number } => u64::from(token) << TOKEN_SHIFT | number & NUMBER_MASK,
            Stub::Batch(number) => 1 << KIND_SHIFT | number & NUMBER_MASK,
            Stub::Upkeep => 2 << KIND_SHIFT,
            Stub::Users => 3 << KIND_SHIFT,
            Stub::Foreign => 1 << 63,
        }
    }

    /// Meaning of a ticket. Numbers come back in their low bits only.
    pub(super) fn of(ticket: u64) -> Self {
        match ticket >> KIND_SHIFT {
            0 => Stub::Place { token: (ticket >> TOKEN_SHIFT) as u32, number: ticket & NUMBER_MASK },
            1 => Stub::Batch(ticket & NUMBER_MASK),
            2 => Stub::Upkeep,
            3 => Stub::Users,
            _ => Stub::Foreign,
        }
    }

    /// How far a number from a ticket lies behind a first one. Numbers go round after 10^12.
    pub(super) fn distance(first: u64, number: u64) -> u64 {
        number.wrapping_sub(first) & NUMBER_MASK
    }
}

#[cfg(test)]
mod tests {
    use super::Stub;

    #[test]
    fn a_ticket_tells_what_it_stands_for() {
        let last = (1 << 21) - 1;
        for stub in [
            Stub::Place { token: 0, number: 0 },
            Stub::Place { token: last, number: (1 << 40) - 1 },
            Stub::Batch(7),
            Stub::Upkeep,
            Stub::Users,
            Stub::Foreign,
        ] {
            assert_eq!(Stub::of(stub.ticket()), stub);
        }
        assert_eq!(Stub::of(u64::MAX), Stub::Foreign);
        assert_eq!(Stub::distance((1 << 40) - 1, 1), 2);
    }
}
