//! Names of tables in the pool, made from the server's paths.
//!
//! The server names a table by a path whose last two parts are its database and its table, both in the file name encoding,
//! where `#` begins no user's name. Tables the server makes for itself have a part that begins with `#sql`. Temporary ones
//! lie in the server's temporary directory; here they go into a database of their own, so that their names never meet.

use crate::code::{Failure, Outcome, PerduraCode};
use std::ffi::CStr;

/// Database of temporary tables. It cannot be a user's.
pub const TEMPORARY: &str = "#tmp";
/// How the server's own table names begin.
const SERVER_PREFIX: &str = "#sql";
const TEMPORARY_PREFIX: &str = "#sql-temptable-";
/// What ALTER TABLE calls the old table until the new one is in its place.
const BACKUP_PREFIX: &str = "#sql-backup-";

/// The pool's name for the table at a server's path: `database/table`.
pub fn of_path(path: &CStr) -> Outcome<String> {
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
pub fn is_temporary(name: &str) -> bool {
    name.split_once('/').is_some_and(|(database, _)| database == TEMPORARY)
}

/// The table part of `name` if the table belongs to `database` and is one a user may see.
pub fn listed<'a>(name: &'a str, database: &str) -> Option<&'a str> {
    name.strip_prefix(database)?.strip_prefix('/').filter(|table| !table.contains('#'))
}

/// Whether nobody can need the table after the server has finished the DDL that a crash interrupted.
pub fn is_garbage(name: &str) -> bool {
    let Some((_, table)) = name.split_once('/') else { return false };
    table.starts_with(SERVER_PREFIX) && !table.starts_with(BACKUP_PREFIX)
}

/// Whether the server has filled the table under a name of its own, so that another name now means it takes a table's place.
pub fn is_rebuilt(name: &str) -> bool {
    is_garbage(name)
}

/// Whether it is the old table of an ALTER TABLE.
pub fn is_backup(name: &str) -> bool {
    name.split_once('/').is_some_and(|(_, table)| table.starts_with(BACKUP_PREFIX))
}
