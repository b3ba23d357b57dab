//! ALTER TABLE ... ADD and DROP INDEX without another table: the engine sorts and stores the keys
//! that the plugin makes of the rows.

use super::code::{Failure, PerduraCode};
use super::cursor::PerduraCursor;
use super::definition::{PerduraDefinition, items};
use super::engine::PerduraEngine;
use super::handler::alone;
use super::key::PerduraKey;
use super::references::redefinitions;
use crate::row::definition::Definition;
use perdura_engine::{AlteredIndex, BuildClient, Error, ErrorKind, IndexAlteration, Isolation, Key, ReadView, Session};
use std::ffi::{CStr, c_char, c_void};

/// Callbacks of the building of indexes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct PerduraBuildHooks {
    /// Whether to go on. Asked often.
    pub goes_on: unsafe extern "C" fn(context: *mut c_void) -> bool,
    /// Is told that the record has been filled in with the next row.
    pub row: unsafe extern "C" fn(context: *mut c_void),
    /// Makes the key of that row in the new index of this number. False if it would be too long.
    pub key: unsafe extern "C" fn(context: *mut c_void, index: u32, key: *mut PerduraKey) -> bool,
    /// Passed to all functions.
    pub context: *mut c_void,
}

/// An alteration of a table's indexes under way.
pub struct PerduraAlteration {
    alteration: IndexAlteration,
    /// Keeps the row that has the key of another.
    reader: Option<Session>,
}

/// Begins to alter the indexes of the cursor's table to those of `definition`. For each of these,
/// `kept` has the number of the same index now, or -1 if it is a new one. Commit the alteration
/// with [`perdura_alter_commit`], or end it with [`perdura_alter_end`].
///
/// # Errors
/// NOT_SUPPORTED if the columns are others; LOCK_WAIT_TIMEOUT; TABLE_FULL; CONFIGURATION.
///
/// # Safety
/// `cursor` must be open and used by this thread alone; the definition valid, `kept` readable for
/// each of its indexes, `alteration` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_alter_begin(
    cursor: *mut PerduraCursor,
    definition: *const PerduraDefinition,
    kept: *const i32,
    alteration: *mut *mut PerduraAlteration,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        alone(cursor, |cursor| {
            if !cursor.layout().has_same_records(&(*definition).checked()?.layout) {
                let what = format!("the columns of table {} are others after this", cursor.table().name());
                return Err(Failure::new(PerduraCode::NotSupported, what));
            }
            let indexes = (*definition).index_definitions();
            let kept = items(kept, indexes.len());
            let wanted: Vec<_> = indexes
                .iter()
                .zip(kept)
                .map(|(index, kept)| usize::try_from(*kept).map_or(AlteredIndex::New(*index), AlteredIndex::Kept))
                .collect();
            let begun = cursor.engine().alter_indexes(cursor.table(), &wanted)?;
            alteration.write(Box::into_raw(Box::new(PerduraAlteration { alteration: begun, reader: None })));
            Ok(PerduraCode::Ok)
        })
    }
}

/// Builds the new indexes from the rows that are committed. Each row is filled into `record`, a
/// record of the table. After DUPLICATE_KEY `record` is a row that has the key of another, valid
/// until the alteration ends, and `refused` the index.
///
/// # Errors
/// DUPLICATE_KEY; KILLED if the caller did not let it go on; CONFIGURATION if a key is too long;
/// DEVICE_FULL; TABLE_FULL; DAMAGED.
///
/// # Safety
/// `cursor` must be the one of the alteration, open and used by this thread alone; `record` must be
/// a record of the table, the hooks callable, `refused` writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_alter_build(
    cursor: *mut PerduraCursor,
    alteration: *mut PerduraAlteration,
    record: *mut u8,
    hooks: PerduraBuildHooks,
    refused: *mut u32,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        alone(cursor, |cursor| {
            let PerduraAlteration { alteration, reader } = &mut *alteration;
            let Err(error) = alteration.build(&mut Caller { cursor, record, hooks }) else {
                return Ok(PerduraCode::Ok);
            };
            if let Some((index, rid)) = alteration.duplicate().filter(|_| error.kind() == ErrorKind::DuplicateKey) {
                refused.write(index as u32);
                let session = reader.insert(cursor.engine().session(Isolation::ReadCommitted));
                session.start_statement();
                if let Some(row) = session.read(cursor.table(), rid, ReadView::Snapshot)? {
                    cursor.is_row(row.bytes(), record);
                }
            }
            Err(error.into())
        })
    }
}

/// A column that gets another name.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct PerduraRenamedColumn {
    /// Its name so far.
    pub before: *const c_char,
    /// Its name from now on.
    pub after: *const c_char,
}

/// Puts an alteration into force, durably, with the definition that the server has from now on; and
/// ends it. Foreign keys of other tables that name one of the `renamed_count` columns `renamed`
/// follow in the same commit. Snapshots from before cannot read the table if it has new indexes.
/// Other cursors on the table must be closed.
///
/// # Errors
/// NOT_FOUND, LOCK_WAIT_TIMEOUT, DEVICE_FULL, READ_ONLY_POOL: the table is as it was.
///
/// # Safety
/// `engine` must be the pool of the cursor, and open; `cursor` must be the one of the alteration,
/// open and used by this thread alone; the definition valid, `renamed` readable, with C strings.
/// The alteration is of no use after this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_alter_commit(
    engine: *const PerduraEngine,
    cursor: *mut PerduraCursor,
    alteration: *mut PerduraAlteration,
    definition: *const PerduraDefinition,
    renamed: *const PerduraRenamedColumn,
    renamed_count: usize,
) -> PerduraCode {
    // SAFETY: as the caller vouches for.
    unsafe {
        alone(cursor, |cursor| {
            let alteration = *Box::from_raw(alteration);
            cursor.reset();
            let (name, references) = (cursor.table().name(), (*engine).references());
            let renamed = items(renamed, renamed_count).iter().map(|column| names(column)).collect::<Vec<_>>();
            let names: Vec<_> = renamed.iter().map(|(before, after)| (&before[..], &after[..])).collect();
            let _alone = references.begin_change();
            let others = references.renamed_columns(&name, &names);
            let redefinitions = redefinitions(cursor.engine(), &others)?;
            let keys = (*definition).foreign_keys()?;
            let foreign_keys = keys.encode();
            // The rows stay as they are stored.
            let layout = cursor.layout().clone();
            let definition = Definition { layout, foreign_keys: &foreign_keys, ..(*definition).checked()? };
            let altered = alteration.alteration.commit_redefining(&definition.encode(), &redefinitions)?;
            cursor.set_altered(altered);
            references.set(&name, &keys);
            references.follow(&others, None);
            Ok(PerduraCode::Ok)
        })
    }
}

/// Ends an alteration that is not to be. The table is as it was.
///
/// # Safety
/// `cursor` must be the one of the alteration, open and used by this thread alone. The alteration
/// is of no use after this.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn perdura_alter_end(cursor: *mut PerduraCursor, alteration: *mut PerduraAlteration) {
    // SAFETY: as the caller vouches for.
    unsafe {
        alone(cursor, |_| {
            drop(Box::from_raw(alteration));
            Ok(PerduraCode::Ok)
        });
    }
}

/// # Safety
/// Both names must be C strings.
unsafe fn names(column: &PerduraRenamedColumn) -> (String, String) {
    // SAFETY: as the caller vouches for.
    let text = |name| unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned();
    (text(column.before), text(column.after))
}

/// The plugin, which makes keys.
struct Caller<'c> {
    cursor: &'c PerduraCursor,
    record: *mut u8,
    hooks: PerduraBuildHooks,
}

impl BuildClient for Caller<'_> {
    fn goes_on(&mut self) -> bool {
        // SAFETY: the caller of the build vouched for the hook.
        unsafe { (self.hooks.goes_on)(self.hooks.context) }
    }

    fn row(&mut self, row: &[u8]) -> Result<(), Error> {
        // SAFETY: the caller of the build vouched for the record.
        if !unsafe { self.cursor.is_row(row, self.record) } {
            let what = "is not one of the definition; run `perdura check` on the pool";
            return Err(Error::new(
                ErrorKind::Damaged,
                format!("a row of table {} {what}", self.cursor.table().name()),
            ));
        }
        // SAFETY: the caller of the build vouched for the hook.
        unsafe { (self.hooks.row)(self.hooks.context) };
        Ok(())
    }

    fn key(&mut self, position: usize) -> Result<Key<'_>, Error> {
        let mut key = PerduraKey { bytes: std::ptr::null(), length: 0, may_repeat: false };
        // SAFETY: the caller of the build vouched for the hook.
        if unsafe { (self.hooks.key)(self.hooks.context, position as u32, &mut key) } {
            // SAFETY: the key is valid until the hook is called again.
            return Ok(unsafe { key.key() });
        }
        let what = format!("a key of table {} in the new index {position} is too long", self.cursor.table().name());
        Err(Error::new(ErrorKind::Configuration, what))
    }
}
