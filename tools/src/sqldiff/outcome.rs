//! The outcome of a statement on one server, and the comparison of two outcomes.

use std::fmt::Write;

use super::step::{Kind, Step};

/// A value as the server sent it; `None` is NULL.
pub type Cell = Option<Vec<u8>>;
/// Rows in the order they came.
pub type Rows = Vec<Vec<Cell>>;

/// Errors about a row. Which of them a statement reports depends on the order of its rows.
const ROW_ERRORS: [u16; 18] =
    [1048, 1062, 1264, 1265, 1292, 1365, 1366, 1406, 1411, 1416, 1441, 1644, 1690, 4025, 4037, 4038, 4078, 4161];
/// Errors of keys. An UPDATE or REPLACE that breaks several rules at once breaks any of them first:
/// InnoDB goes index by index, Perdura looks for the rows that a row refers to before all of them.
const KEY_ERRORS: [u16; 4] = [1062, 1451, 1452, 1761];
/// Errors of TRUNCATE for a table that others refer to: InnoDB finds out late about a foreign key
/// that came without checks.
const PARENT_TRUNCATED: [u16; 2] = [1215, 1701];
/// Errors of a NULL that LOAD DATA has for a NOT NULL column: of the row, or, in a table with a
/// trigger before the row, of the column. The server leaves the trigger out of account where the
/// columns that may be NULL, virtual ones included, are as many as those that are stored: with one
/// of the two, where a column is stored with InnoDB and virtual with Perdura.
const NULL_LOADED: [u16; 2] = [1048, 1263];
/// Write conflict, as InnoDB reports it.
pub const RECORD_CHANGED: u16 = 1020;
/// Deadlock. Perdura reports write conflicts as such too, since applications retry it.
pub const DEADLOCK: u16 = 1213;
/// Lock wait timeout.
pub const LOCK_WAIT: u16 = 1205;

/// The table is newer than the snapshot: the server's number and the handler's.
pub const TABLE_CHANGED: u16 = 1412;
const HANDLER_TABLE_CHANGED: u16 = 159;
/// A table could not be created, or renamed.
const CANNOT_CREATE: u16 = 1005;
const ERROR_ON_RENAME: u16 = 1025;

/// Whether an error is about a row.
pub fn is_of_row(code: u16) -> bool {
    ROW_ERRORS.contains(&code)
}

/// How a statement ended on one server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded.
    Done {
        /// Its result sets.
        sets: Vec<Rows>,
        /// Number of affected rows.
        affected: u64,
        /// Number of warnings.
        warnings: u16,
        /// The server's summary: rows matched, records, duplicates.
        info: String,
    },
    /// It failed.
    Refused {
        /// Its number.
        code: u16,
        /// Its text.
        message: String,
    },
    /// The connection is lost, or the answer is malformed.
    Gone(String),
}

impl Outcome {
    /// A success without rows.
    pub fn nothing() -> Self {
        Self::Done { sets: vec![], affected: 0, warnings: 0, info: String::new() }
    }

    /// The error number, if it failed.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Whether the statement succeeded.
    pub fn is_done(&self) -> bool {
        matches!(self, Self::Done { .. })
    }

    /// Whether the statement was refused because of another session.
    pub fn is_conflict(&self) -> bool {
        matches!(self.code(), Some(RECORD_CHANGED | DEADLOCK | LOCK_WAIT))
    }

    /// The rows of the first result set.
    pub fn rows(&self) -> &[Vec<Cell>] {
        match self {
            Self::Done { sets, .. } => sets.first().map_or(&[], Vec::as_slice),
            _ => &[],
        }
    }

    /// InnoDB's outcome with some error numbers replaced: a write conflict becomes a deadlock; the
    /// handler's number for a table newer than the snapshot, which some statements pass on, becomes
    /// the server's; and a foreign key that is found wrong when the copy is put in place is one
    /// that was found before.
    pub fn in_our_numbers(self) -> Self {
        match self {
            Self::Refused { code: RECORD_CHANGED, message } => Self::Refused { code: DEADLOCK, message },
            Self::Refused { code: ERROR_ON_RENAME, message } if message.contains("errno: 150") => {
                Self::Refused { code: CANNOT_CREATE, message }
            }
            Self::Refused { code: HANDLER_TABLE_CHANGED, message } => Self::Refused { code: TABLE_CHANGED, message },
            other => other,
        }
    }

    /// The outcome as text for a report. Long rows are cut.
    pub fn describe(&self) -> String {
        match self {
            Self::Done { sets, affected, warnings, info } => {
                let mut text = format!("ok, {affected} rows affected, {warnings} warnings {info}");
                for rows in sets {
                    let _ = write!(text, "\n  {} rows", rows.len());
                    for row in rows.iter().take(12) {
                        let _ = write!(text, "\n    {}", show_row(row));
                    }
                }
                text
            }
            Self::Refused { code, message } => format!("error {code}: {message}"),
            Self::Gone(message) => format!("connection lost: {message}"),
        }
    }
}

/// A value as short printable text.
fn show_cell(cell: &Cell) -> String {
    const SHOWN: usize = 48;
    let Some(bytes) = cell else { return "NULL".to_owned() };
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(SHOWN)]).escape_debug().to_string();
    if bytes.len() > SHOWN { format!("'{text}...' ({} bytes)", bytes.len()) } else { format!("'{text}'") }
}

fn show_row(row: &[Cell]) -> String {
    row.iter().map(show_cell).collect::<Vec<_>>().join(" | ")
}

/// The difference between the two outcomes of a step; `None` if there is none.
pub fn difference(step: &Step, ours: &Outcome, theirs: &Outcome) -> Option<String> {
    match (ours, theirs) {
        (
            Outcome::Done { sets, affected, warnings, info },
            Outcome::Done { sets: other_sets, affected: other_affected, warnings: other_warnings, info: other_info },
        ) => {
            if step.rows_differ {
                return None;
            }
            let unchanged_apart = leaves_out_unchanged(info, other_info)
                || *affected == *other_affected && knows_nothing_matches(info, other_info)
                || (step.text.contains("ON DUPLICATE") || step.text.starts_with("EXECUTE"))
                    && leaves_out_untouched((*affected, info), (*other_affected, other_info));
            if affected != other_affected && !unchanged_apart {
                return Some(format!("rows affected: {affected} and {other_affected}"));
            }
            let warnings_apart = step.warns_by_plan && without_warnings(info) == without_warnings(other_info);
            if info != other_info && !unchanged_apart && !warnings_apart {
                return Some(format!("what is said beside: {info:?} and {other_info:?}"));
            }
            if warnings != other_warnings && !step.warns_by_plan {
                return Some(format!("warnings: {warnings} and {other_warnings}"));
            }
            if sets.len() != other_sets.len() {
                return Some(format!("result sets: {} and {}", sets.len(), other_sets.len()));
            }
            sets.iter().zip(other_sets).find_map(|(rows, others)| rows_difference(rows, others, step.ordered))
        }
        (Outcome::Refused { code, .. }, Outcome::Refused { code: other, .. }) => {
            let changes = matches!(step.kind, Kind::Change | Kind::Definition);
            let by_order = !step.ordered && changes && is_of_row(*code) && is_of_row(*other);
            let by_trigger =
                step.text.starts_with("LOAD DATA") && NULL_LOADED.contains(code) && NULL_LOADED.contains(other);
            let by_key = (step.text.contains("UPDATE") || step.text.starts_with("REPLACE"))
                && changes
                && KEY_ERRORS.contains(code)
                && KEY_ERRORS.contains(other);
            let by_parent = step.text.starts_with("TRUNCATE")
                && PARENT_TRUNCATED.contains(code)
                && PARENT_TRUNCATED.contains(other);
            (code != other && !by_order && !by_trigger && !by_key && !by_parent)
                .then(|| format!("errors: {code} and {other}"))
        }
        (Outcome::Gone(_), _) | (_, Outcome::Gone(_)) => Some("a connection is lost".to_owned()),
        _ => Some("one succeeds, the other fails".to_owned()),
    }
}

/// The server's counts of a statement, without the number of warnings.
fn without_warnings(info: &str) -> &str {
    info.split_once("  Warnings: ").map_or(info, |(counts, _)| counts)
}

/// The numbers of an UPDATE: rows matched, changed, history rows inserted (of a versioned table),
/// warnings.
fn update_counts(info: &str) -> Option<[Option<u64>; 4]> {
    let rest = info.strip_prefix("Rows matched: ")?;
    let (matched, rest) = rest.split_once("  Changed: ")?;
    let (counts, warnings) = rest.split_once("  Warnings: ")?;
    let (changed, inserted) = counts.split_once("  Inserted: ").map_or((counts, None), |(one, two)| (one, Some(two)));
    let number = |text: &str| text.parse().ok();
    Some([number(matched), number(changed), inserted.and_then(number), number(warnings)])
}

/// Whether only unchanged rows are counted differently.
///
/// InnoDB may read only the columns that an UPDATE needs. Then the server cannot compare the rows
/// and counts unchanged ones as changed. Perdura reads whole rows. In a versioned table the server
/// compares the written columns with InnoDB but whole rows with Perdura, their new start time
/// included, so it counts none or all of the unchanged rows.
fn leaves_out_unchanged(ours: &str, theirs: &str) -> bool {
    let (Some(ours), Some(theirs)) = (update_counts(ours), update_counts(theirs)) else { return false };
    let others_equal = [0, 2, 3].into_iter().all(|index| ours[index] == theirs[index]);
    let versioned = ours[2].is_some();
    others_equal && if versioned { ours[1] > theirs[1] } else { ours[1] < theirs[1] }
}

/// Whether one says nothing of an UPDATE because it knew beforehand that no row matches, and the
/// other has found none: InnoDB's keys have the primary key behind their own columns, whose
/// conditions the optimizer looks at.
fn knows_nothing_matches(ours: &str, theirs: &str) -> bool {
    let found_none =
        |info| update_counts(info).is_some_and(|counts| counts.into_iter().flatten().all(|count| count == 0));
    ours.is_empty() && found_none(theirs) || theirs.is_empty() && found_none(ours)
}

/// The numbers of an INSERT: rows given, duplicates, warnings.
fn insert_counts(info: &str) -> Option<[i64; 3]> {
    let rest = info.strip_prefix("Records: ")?;
    let (records, rest) = rest.split_once("  Duplicates: ")?;
    let (duplicates, warnings) = rest.split_once("  Warnings: ")?;
    Some([records.parse().ok()?, duplicates.parse().ok()?, warnings.parse().ok()?])
}

/// The same for ON DUPLICATE KEY UPDATE: InnoDB's rows that stay as they are count as inserted or
/// changed. Of a single row nothing is said.
fn leaves_out_untouched(ours: (u64, &str), theirs: (u64, &str)) -> bool {
    if ours.1.is_empty() && theirs.1.is_empty() {
        return (ours.0, theirs.0) == (0, 1);
    }
    let (Some(own), Some(other)) = (insert_counts(ours.1), insert_counts(theirs.1)) else { return false };
    own[0] == other[0] && own[2] == other[2] && own[1] >= other[1] && theirs.0 > ours.0
}

/// Compares rows: as a sequence if the statement orders them, else as a multiset.
fn rows_difference(ours: &Rows, theirs: &Rows, ordered: bool) -> Option<String> {
    if ours == theirs {
        return None;
    }
    let (mut ours, mut theirs): (Vec<_>, Vec<_>) = (ours.iter().collect(), theirs.iter().collect());
    if !ordered {
        ours.sort_unstable();
        theirs.sort_unstable();
        if ours == theirs {
            return None;
        }
    }
    let at = ours.iter().zip(&theirs).position(|(own, other)| own != other).unwrap_or(ours.len().min(theirs.len()));
    let show = |rows: &[&Vec<Cell>]| rows.get(at).map_or_else(|| "no row".to_owned(), |row| show_row(row));
    let column = ours.get(at).zip(theirs.get(at)).and_then(|(own, other)| {
        let column = own.iter().zip(other.iter()).position(|(one, two)| one != two)?;
        Some(format!(" in column {}: {} and {}", column + 1, show_cell(&own[column]), show_cell(&other[column])))
    });
    Some(format!(
        "{} rows and {} rows; the first that differs{}: {} and {}",
        ours.len(),
        theirs.len(),
        column.unwrap_or_default(),
        show(&ours),
        show(&theirs)
    ))
}

#[cfg(test)]
mod tests {
    use super::super::step::{Kind, Step};
    use super::{Cell, DEADLOCK, LOCK_WAIT, Outcome, RECORD_CHANGED, difference};

    fn cell(text: &str) -> Cell {
        Some(text.as_bytes().to_vec())
    }

    fn rows(rows: &[&[&str]]) -> Outcome {
        let rows = rows.iter().map(|row| row.iter().map(|text| cell(text)).collect()).collect();
        Outcome::Done { sets: vec![rows], affected: 0, warnings: 0, info: String::new() }
    }

    fn changed(affected: u64, warnings: u16, info: &str) -> Outcome {
        Outcome::Done { sets: vec![], affected, warnings, info: info.to_owned() }
    }

    fn error(code: u16) -> Outcome {
        Outcome::Refused { code, message: String::new() }
    }

    fn differ(kind: Kind, ordered: bool, ours: &Outcome, theirs: &Outcome) -> bool {
        difference(&Step::new(0, kind, "INSERT ... ON DUPLICATE KEY UPDATE").in_order(ordered), ours, theirs).is_some()
    }

    #[test]
    fn one_value_changed_on_one_side_is_noticed() {
        let truth = rows(&[&["1", "a"], &["2", "b"]]);
        assert!(!differ(Kind::Query, false, &truth, &truth));
        assert!(differ(Kind::Query, false, &rows(&[&["1", "a"], &["2", "B"]]), &truth));
        assert!(differ(Kind::Query, false, &rows(&[&["1", "a"]]), &truth));
        assert!(differ(Kind::Query, false, &rows(&[&["1", "a"], &["2", "b"], &["2", "b"]]), &truth));
        let null = Outcome::Done { sets: vec![vec![vec![None]]], affected: 0, warnings: 0, info: String::new() };
        assert!(differ(Kind::Query, false, &null, &rows(&[&["NULL"]])), "NULL is not the word NULL");
    }

    #[test]
    fn a_null_is_loaded_with_either_error() {
        let load = Step::new(0, Kind::Change, "LOAD DATA INFILE 'f' INTO TABLE t (a)").in_order(true);
        assert!(difference(&load, &error(1263), &error(1048)).is_none());
        assert!(difference(&load, &error(1263), &error(1062)).is_some());
        assert!(differ(Kind::Change, true, &error(1263), &error(1048)));
    }

    #[test]
    fn the_order_of_rows_counts_only_where_the_statement_fixes_it() {
        let (forth, back) = (rows(&[&["1"], &["2"]]), rows(&[&["2"], &["1"]]));
        assert!(!differ(Kind::Query, false, &forth, &back));
        assert!(differ(Kind::Query, true, &forth, &back));
    }

    #[test]
    fn counts_errors_and_success_are_compared() {
        assert!(differ(Kind::Change, false, &changed(1, 0, ""), &changed(2, 0, "")));
        assert!(differ(Kind::Change, false, &changed(1, 0, ""), &changed(1, 1, "")));
        assert!(differ(Kind::Change, false, &changed(1, 0, "Rows matched: 1"), &changed(1, 0, "Rows matched: 2")));
        assert!(differ(Kind::Change, false, &changed(1, 0, ""), &error(1264)));
        assert!(differ(Kind::Change, false, &error(1264), &changed(1, 0, "")));
        assert!(differ(Kind::Change, false, &Outcome::Gone(String::new()), &error(2013)));
        assert!(differ(Kind::Query, false, &error(1412), &error(1213)));
    }

    #[test]
    fn only_rows_that_stay_as_they_were_may_count_differently() {
        let update = |matched, changed, warnings| super::Outcome::Done {
            sets: vec![],
            affected: changed,
            warnings: 0,
            info: format!("Rows matched: {matched}  Changed: {changed}  Warnings: {warnings}"),
        };
        assert!(!differ(Kind::Change, false, &update(5, 2, 0), &update(5, 5, 0)));
        assert!(differ(Kind::Change, false, &update(5, 5, 0), &update(5, 2, 0)), "Perdura counts more");
        assert!(differ(Kind::Change, false, &update(4, 2, 0), &update(5, 5, 0)), "other rows matched");
        assert!(differ(Kind::Change, false, &update(5, 2, 1), &update(5, 5, 0)), "other warnings");
        assert!(!differ(Kind::Change, false, &update(0, 0, 0), &changed(0, 0, "")), "known beforehand");
        assert!(differ(Kind::Change, false, &update(1, 0, 0), &changed(0, 0, "")), "a row matched");
        let versioned = |count: u64, inserted: u64| {
            changed(count, 0, &format!("Rows matched: 3  Changed: {count}  Inserted: {inserted}  Warnings: 0"))
        };
        assert!(!differ(Kind::Change, false, &versioned(3, 3), &versioned(0, 3)));
        assert!(differ(Kind::Change, false, &versioned(3, 3), &versioned(0, 0)), "other history");
        assert!(differ(Kind::Change, false, &versioned(0, 3), &versioned(3, 3)), "InnoDB counts more");
    }

    #[test]
    fn a_duplicate_that_stays_as_it_was_may_count_as_inserted() {
        assert!(!differ(Kind::Change, false, &changed(0, 0, ""), &changed(1, 0, "")), "a single row");
        assert!(differ(Kind::Change, false, &changed(1, 0, ""), &changed(0, 0, "")), "Perdura counts more");
        let insert = |affected, duplicates: i64, warnings| {
            changed(affected, 0, &format!("Records: 3  Duplicates: {duplicates}  Warnings: {warnings}"))
        };
        assert!(!differ(Kind::Change, true, &insert(2, 1, 0), &insert(3, 0, 0)));
        assert!(differ(Kind::Change, true, &insert(3, 0, 0), &insert(2, 1, 0)), "Perdura counts more");
        assert!(!differ(Kind::Change, true, &insert(2, 1, 0), &insert(3, 1, 0)));
        assert!(differ(Kind::Change, true, &insert(2, 1, 1), &insert(3, 0, 0)), "other warnings");
    }

    #[test]
    fn which_row_fails_first_may_differ_only_between_errors_about_rows() {
        assert!(!differ(Kind::Change, false, &error(1264), &error(4025)));
        assert!(differ(Kind::Change, true, &error(1264), &error(4025)), "an ordered statement meets them in order");
        assert!(differ(Kind::Change, false, &error(1264), &error(1205)));
        assert!(differ(Kind::Query, false, &error(1264), &error(4025)));
    }

    #[test]
    fn an_update_may_break_any_of_its_keys_first() {
        let update = Step::new(0, Kind::Change, "UPDATE t SET id = 1").in_order(true);
        let insert = Step::new(0, Kind::Change, "INSERT INTO t VALUES (1)").in_order(true);
        assert!(difference(&update, &error(1452), &error(1062)).is_none());
        assert!(difference(&update, &error(1452), &error(1264)).is_some());
        assert!(difference(&insert, &error(1452), &error(1062)).is_some());
    }

    #[test]
    fn only_a_write_conflict_of_innodb_counts_as_a_deadlock() {
        assert_eq!(error(RECORD_CHANGED).in_our_numbers().code(), Some(DEADLOCK));
        assert_eq!(error(LOCK_WAIT).in_our_numbers().code(), Some(LOCK_WAIT));
        assert!(differ(Kind::Change, false, &error(RECORD_CHANGED), &error(RECORD_CHANGED).in_our_numbers()));
    }
}
