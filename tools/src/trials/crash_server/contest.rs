//! Rows that all clients change and delete: who wrote which version, and whether that explains the
//! rows found.

use std::collections::{BTreeMap, BTreeSet};

/// One version of one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The row.
    pub id: u64,
    /// 0 for the insert, one more for each change.
    pub number: u64,
    /// The transaction that wrote it.
    pub writer: u64,
}

/// Write of a transaction to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// It wrote this version.
    Put(Version),
    /// It deleted the row. The deletion counts as a version and has its number.
    Delete(Version),
}

impl Write {
    fn version(self) -> Version {
        match self {
            Self::Put(version) | Self::Delete(version) => version,
        }
    }
}

/// The rows that are there, by id.
pub type Rows = BTreeMap<u64, Version>;

/// The rows after a set of transactions on `base`. An error says where their versions do not make a
/// chain.
fn replay(base: &Rows, writes: &[Write]) -> Result<Rows, String> {
    let mut ordered: Vec<Write> = writes.to_vec();
    ordered.sort_by_key(|write| write.version());
    let mut rows = base.clone();
    let mut gone = BTreeSet::new();
    for write in ordered {
        let version = write.version();
        let next = rows.get(&version.id).map_or(0, |row| row.number + 1);
        if version.number != next || gone.contains(&version.id) {
            return Err(format!("{write:?} was acknowledged, but the row's next version is {next}"));
        }
        match write {
            Write::Put(_) => drop(rows.insert(version.id, version)),
            Write::Delete(_) => {
                rows.remove(&version.id);
                gone.insert(version.id);
            }
        }
    }
    Ok(rows)
}

/// Finds which open transactions survived. Fails with the contradiction if no set of them explains
/// the rows found.
///
/// A client locks a row, reads its version and writes the next one under the number of its
/// transaction, or deletes the row for good; ids are never reused. So the versions of a row form
/// one chain, whoever wrote them. After a crash some set of the open transactions, each as a whole,
/// must explain all that is found: with the acknowledged versions theirs make chains without gap or
/// fork, the chains end in the rows found, and they contain every version that a client has read.
/// So a transaction that built on another's row, or saw it, never survives without it.
pub fn explain(
    base: &Rows,
    acknowledged: &[Write],
    open: &[Vec<Write>],
    seen: &BTreeSet<Version>,
    found: &Rows,
) -> Result<Vec<bool>, String> {
    let mut reason = String::new();
    for set in 0..1_u32 << open.len() {
        let chosen: Vec<bool> = (0..open.len()).map(|index| set & (1 << index) != 0).collect();
        let there = open.iter().zip(&chosen).filter(|(_, chosen)| **chosen).flat_map(|(writes, _)| writes);
        let writes: Vec<Write> = acknowledged.iter().chain(there).copied().collect();
        match contradiction(base, &writes, seen, found) {
            None => return Ok(chosen),
            Some(what) if set == 0 => reason = what,
            Some(_) => {}
        }
    }
    Err(format!("no set of the {} open transactions explains the contested rows; with none: {reason}", open.len()))
}

fn contradiction(base: &Rows, writes: &[Write], seen: &BTreeSet<Version>, found: &Rows) -> Option<String> {
    let rows = match replay(base, writes) {
        Ok(rows) => rows,
        Err(what) => return Some(what),
    };
    if rows != *found {
        let ids: BTreeSet<&u64> = rows.keys().chain(found.keys()).collect();
        let id = ids.into_iter().find(|id| rows.get(id) != found.get(id))?;
        return Some(format!("row {id}: expected {:?}, found {:?}", rows.get(id), found.get(id)));
    }
    let put = |write: &Write| matches!(write, Write::Put(_)).then(|| write.version());
    let written: BTreeSet<Version> = base.values().copied().chain(writes.iter().filter_map(put)).collect();
    seen.difference(&written).next().map(|lost| format!("a client has read {lost:?}, which is lost"))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{Rows, Version, Write, explain};

    fn version(id: u64, number: u64, writer: u64) -> Version {
        Version { id, number, writer }
    }

    fn put(id: u64, number: u64, writer: u64) -> Write {
        Write::Put(version(id, number, writer))
    }

    fn rows(versions: &[Version]) -> Rows {
        versions.iter().map(|version| (version.id, *version)).collect()
    }

    fn explained(
        acknowledged: &[Write],
        open: &[Vec<Write>],
        seen: &[Version],
        found: &[Version],
    ) -> Option<Vec<bool>> {
        let seen: BTreeSet<Version> = seen.iter().copied().collect();
        explain(&rows(&[version(1, 5, 0)]), acknowledged, open, &seen, &rows(found)).ok()
    }

    #[test]
    fn an_acknowledged_change_of_anothers_row_is_not_lost() {
        assert!(explained(&[put(1, 6, 7)], &[], &[], &[version(1, 6, 7)]).is_some());
        assert!(explained(&[put(1, 6, 7)], &[], &[], &[version(1, 5, 0)]).is_none(), "lost");
        assert!(explained(&[put(1, 6, 7), put(1, 7, 8)], &[], &[], &[version(1, 6, 7)]).is_none(), "the last one lost");
        assert!(explained(&[put(1, 6, 7)], &[], &[], &[version(1, 6, 8)]).is_none(), "another's in its place");
        assert!(explained(&[put(1, 6, 7), put(1, 6, 8)], &[], &[], &[version(1, 6, 8)]).is_none(), "a lost update");
    }

    #[test]
    fn a_deleted_row_stays_away() {
        let delete = Write::Delete(version(1, 6, 7));
        assert!(explained(&[delete], &[], &[], &[]).is_some());
        assert!(explained(&[delete], &[], &[], &[version(1, 5, 0)]).is_none());
        assert!(explained(&[], &[], &[], &[]).is_none(), "nobody deleted it");
    }

    #[test]
    fn open_transactions_are_there_whole_or_not_at_all() {
        let open = [vec![put(1, 6, 7), put(2, 0, 7)]];
        assert_eq!(explained(&[], &open, &[], &[version(1, 5, 0)]), Some(vec![false]));
        assert_eq!(explained(&[], &open, &[], &[version(1, 6, 7), version(2, 0, 7)]), Some(vec![true]));
        assert!(explained(&[], &open, &[], &[version(1, 6, 7)]).is_none(), "half of it");
    }

    #[test]
    fn what_an_acknowledged_transaction_built_on_is_there() {
        let open = [vec![put(1, 6, 7)]];
        let acknowledged = [put(1, 7, 8)];
        assert_eq!(explained(&acknowledged, &open, &[], &[version(1, 7, 8)]), Some(vec![true]));
        let open = [vec![put(1, 6, 7), put(2, 0, 7)]];
        assert!(explained(&acknowledged, &open, &[], &[version(1, 7, 8)]).is_none(), "its other row is missing");
    }

    #[test]
    fn what_a_client_has_read_survives() {
        let open = [vec![put(2, 0, 7)]];
        let seen = [version(2, 0, 7)];
        assert!(explained(&[], &open, &seen, &[version(1, 5, 0), version(2, 0, 7)]).is_some());
        assert!(explained(&[], &open, &seen, &[version(1, 5, 0)]).is_none());
    }
}
