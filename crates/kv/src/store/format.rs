//! The formats of snapshots. Maps of either kind take each other's; a log's are others, so a
//! cluster has one or the other.

use bytes::Bytes;

use super::error::{Error, ErrorKind, Result};

/// Format of a store's snapshots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotFormat {
    /// The stream of an ordered map.
    Map,
    /// The stream of a store with a write-ahead log.
    Log,
}

impl SnapshotFormat {
    /// The number that offers bear, and behind it those of earlier programs, which are taken too.
    /// A map's of number 1 has tags of layout 1 only.
    fn numbers(self) -> &'static [u8] {
        match self {
            SnapshotFormat::Map => &[3, 1],
            SnapshotFormat::Log => &[2],
        }
    }

    fn stores(self) -> &'static str {
        match self {
            SnapshotFormat::Map => "list or btree",
            SnapshotFormat::Log => "wal",
        }
    }

    /// Content of an offer of a snapshot: the format, and the content's length in bytes, if that
    /// matters.
    pub(crate) fn offer(self, bytes: u64) -> Bytes {
        [&self.numbers()[..1], &bytes.to_le_bytes()].concat().into()
    }

    /// The number of bytes that an offer says. Error: `Configuration` if a store of this format
    /// cannot take it.
    pub(crate) fn check(self, said: &[u8]) -> Result<u64> {
        let (number, bytes) = said.split_first().map_or((0, said), |(number, bytes)| (*number, bytes));
        if let (true, Ok(bytes)) = (self.numbers().contains(&number), bytes.try_into()) {
            return Ok(u64::from_le_bytes(bytes));
        }
        let of_other =
            [SnapshotFormat::Map, SnapshotFormat::Log].into_iter().find(|format| format.numbers().contains(&number));
        let (own, other) = (self.stores(), of_other.map_or("not known to this version", SnapshotFormat::stores));
        let what = format!(
            "the leader's store is {other}, and this replica's is {own}: it cannot take the leader's snapshots; remove this replica, \
             and let it join again with a store as the leader's"
        );
        Err(Error::new(ErrorKind::Configuration, what))
    }
}

#[cfg(test)]
mod tests {
    use super::SnapshotFormat::{Log, Map};

    #[test]
    fn only_the_own_format_is_taken_and_the_error_names_both() {
        assert_eq!(Map.check(&Map.offer(7)).ok().zip(Log.check(&Log.offer(0)).ok()), Some((7, 0)));
        let said = Map.check(&Log.offer(0)).expect_err("another format").to_string();
        assert!(said.contains("wal") && said.contains("list or btree"), "{said}");
        assert!(Log.check(b"").is_err() && Log.check(b"\x09").is_err());
    }

    /// Hazard: a replica of a newer program cannot join a cluster of an older one.
    #[test]
    fn an_offer_of_an_earlier_program_is_taken() {
        let earlier = [&[1][..], &7_u64.to_le_bytes()].concat();
        assert_eq!(Map.check(&earlier).ok(), Some(7));
        assert!(Log.check(&earlier).is_err());
    }
}
