//! The pool's names of tables, derived from the server's paths.
//!
//! The last two parts of a server's path are a table's database and name, in the file name
//! encoding, in which no user's name begins with `#`. The server's own tables begin with `#sql`.
//! Its temporary tables lie in its temporary directory, from which no database can be told: here
//! they share a database of their own.

use super::code::{Failure, Outcome, PerduraCode};
use std::ffi::CStr;

/// The database of temporary tables. No user's database can have this name.
pub(super) const TEMPORARY: &str = "#tmp";
/// Prefix of the names of the server's own tables.
const SERVER_PREFIX: &str = "#sql";
const TEMPORARY_PREFIX: &str = "#sql-temptable-";
/// Prefix that ALTER TABLE gives the old table's name until the new table is in its place.
const BACKUP_PREFIX: &str = "#sql-backup-";

/// The pool's name for the table at a server's path: `database/table`.
pub(super) fn of_path(path: &CStr) -> Outcome<String> {
    let wrong = || Failure::new(PerduraCode::Configuration, format!("{path:?} is not a path of a table"));
    let mut parts = path.to_str().map_err(|_| wrong())?.rsplit(['/', '\\']);
    let table = parts.next().filter(|table| !table.is_empty()).ok_or_else(wrong)?;
    if table.starts_with(TEMPORARY_PREFIX) {
        return Ok(format!("{TEMPORARY}/{table}"));
    }
    let database = parts.next().filter(|database| !database.is_empty()).ok_or_else(wrong)?;
    Ok(format!("{database}/{table}"))
}

/// Whether the table belongs to one session.
pub(super) fn is_temporary(name: &str) -> bool {
    name.split_once('/').is_some_and(|(database, _)| database == TEMPORARY)
}

/// The table part of `name` if the table belongs to `database` and is one a user may see.
pub(super) fn listed<'a>(name: &'a str, database: &str) -> Option<&'a str> {
    name.strip_prefix(database)?.strip_prefix('/').filter(|table| !table.contains('#'))
}

/// Whether users see the table: its name is none of the server's own, nor that of a partition.
pub(super) fn is_users(name: &str) -> bool {
    !name.contains('#')
}

/// Whether the server made the table under a name of its own, to fill it with the rows of another.
/// A rename then puts it in the other's place; once the server has finished the DDL that a crash
/// interrupted, it is of no use.
pub(super) fn is_rebuilt(name: &str) -> bool {
    let Some((_, table)) = name.split_once('/') else { return false };
    table.starts_with(SERVER_PREFIX) && !table.starts_with(BACKUP_PREFIX)
}

/// Whether the table is one that the server has made, or put aside, under a name of its own.
pub(super) fn is_of_server(name: &str) -> bool {
    name.split_once('/').is_some_and(|(_, table)| table.starts_with(SERVER_PREFIX))
}

/// Whether the table is the one that an ALTER TABLE replaces.
pub(super) fn is_backup(name: &str) -> bool {
    name.split_once('/').is_some_and(|(_, table)| table.starts_with(BACKUP_PREFIX))
}
