//! Descriptors of the process: clients take all but those that the replica needs for itself. Else
//! clients, who need not even be let in, could have it lose its other replicas and be unable to
//! write out its state.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors that are kept: for all others who connect (inbound.rs, http.rs), links, and files.
const KEPT: u64 = 512;

/// Most connections of clients, of those that are wanted, for which a process has descriptors that
/// may have `limit`: at least half of them are for others where there are few.
fn clients(limit: u64, wanted: usize) -> usize {
    let most = limit.saturating_sub(KEPT).max(limit / 2).max(1);
    usize::try_from(most).map_or(wanted, |most| most.min(wanted))
}

/// Raises the process' limit of descriptors as far as this number of client connections needs it,
/// and as the system lets it. Returns for how many connections there are enough.
pub(super) fn allow(wanted: usize) -> usize {
    let limit = getrlimit(Resource::Nofile);
    let needed = (wanted as u64).saturating_add(KEPT);
    let is_enough = |current: Option<u64>| current.is_none_or(|current| current >= needed);
    if is_enough(limit.current) {
        return wanted;
    }
    let current = Some(limit.maximum.map_or(needed, |maximum| maximum.min(needed)));
    let raised = setrlimit(Resource::Nofile, Rlimit { current, maximum: limit.maximum });
    let current = if raised.is_ok() { current } else { limit.current };
    current.map_or(wanted, |current| clients(current, wanted))
}

#[cfg(test)]
mod tests {
    use super::{KEPT, clients};

    #[test]
    fn clients_leave_descriptors_to_others() {
        for (limit, wanted, found) in [
            (1 << 20, 10_000, 10_000),
            (10_000 + KEPT, 10_000, 10_000),
            (10_000 + KEPT - 1, 10_000, 9999),
            (1024, 10_000, 512),
            (1024, 100, 100),
            (200, 10_000, 100),
            (1, 10, 1),
            (0, 10, 1),
        ] {
            assert_eq!(clients(limit, wanted), found, "{limit} for {wanted}");
        }
    }
}
