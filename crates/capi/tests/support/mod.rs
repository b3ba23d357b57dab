//! A pool in a directory of its own, driven as the plugin drives it: through the C interface alone.

#![allow(dead_code)] // Each test file uses a part of it.

use perdura_capi::server::code::{PerduraCode, perdura_message};
use perdura_capi::server::cursor::{PerduraCursor, PerduraLock};
use perdura_capi::server::definition::*;
use perdura_capi::server::engine::{PerduraEngine, PerduraOptions, perdura_close, perdura_open};
use perdura_capi::server::handler::*;
use perdura_capi::server::hooks::PerduraWaitHooks;
use perdura_capi::server::rows::*;
use perdura_capi::server::session::*;
use perdura_capi::server::statement::*;
use perdura_capi::server::table::perdura_table_create;
use perdura_capi::server::transaction::*;
use std::ffi::CString;
use std::ptr::{null, null_mut};

/// How long statements wait for a row lock, in milliseconds.
pub const WAIT_MS: u64 = 10_000;

pub fn last_message() -> String {
    let mut text = [0u8; 500];
    // SAFETY: the buffer has as many bytes.
    unsafe { perdura_message(text.as_mut_ptr(), text.len()) };
    let end = text.iter().position(|byte| *byte == 0).expect("an end");
    String::from_utf8_lossy(&text[..end]).into_owned()
}

pub fn ok(code: PerduraCode) {
    assert_eq!(code, PerduraCode::Ok, "{}", last_message());
}

/// An open pool.
pub struct Pool {
    pub engine: *mut PerduraEngine,
    directory: tempfile::TempDir,
}

// SAFETY: the engine behind the pointer is made to be used by many threads.
unsafe impl Sync for Pool {}

impl Pool {
    pub fn new() -> Pool {
        let directory = tempfile::tempdir().expect("a directory");
        Pool { engine: open_at(&directory).expect("a pool"), directory }
    }

    /// Closes the pool and opens it again.
    pub fn reopen(mut self) -> Pool {
        // SAFETY: tests end their sessions and cursors before.
        unsafe { perdura_close(self.engine) };
        self.engine = open_at(&self.directory).expect("the pool again");
        self
    }

    /// The pool as it would be after a kill now: opened from a copy of its files.
    pub fn as_killed(&self) -> Pool {
        let directory = tempfile::tempdir().expect("a directory");
        for entry in std::fs::read_dir(self.path()).expect("the pool") {
            let path = entry.expect("a file").path();
            std::fs::copy(&path, directory.path().join(path.file_name().unwrap())).expect("a copy");
        }
        Pool { engine: open_at(&directory).expect("the copy"), directory }
    }

    /// The pool's directory.
    pub fn path(&self) -> &std::path::Path {
        self.directory.path()
    }

    /// Tries to open the pool a second time.
    pub fn open_twice(&self) -> PerduraCode {
        open_at(&self.directory).err().unwrap_or(PerduraCode::Ok)
    }

    pub fn create(&self, path: &str, version: &[u8], frm: &[u8]) -> PerduraCode {
        self.create_with(path, version, frm, &[])
    }

    pub fn create_with(&self, path: &str, version: &[u8], frm: &[u8], indexes: &[PerduraIndex]) -> PerduraCode {
        let path = CString::new(path).unwrap();
        let fields = fields();
        let definition = definition(&fields, version, frm, indexes);
        // SAFETY: all pointers are to live values.
        unsafe { perdura_table_create(self.engine, path.as_ptr(), &definition) }
    }

    /// Creates a table with foreign keys, or a copy with those of another one.
    pub fn create_referring(
        &self,
        (path, copy_of): (&str, Option<&str>),
        indexes: &[PerduraIndex],
        keys: &[PerduraForeignKey],
    ) -> PerduraCode {
        let path = CString::new(path).unwrap();
        let fields = fields();
        let original = copy_of.map(|path| CString::new(path).unwrap());
        let (foreign_keys, foreign_key_count) = (keys.as_ptr(), keys.len());
        let copy_of = original.as_ref().map_or(std::ptr::null(), |path| path.as_ptr());
        let definition = definition(&fields, b"v1", b"frm", indexes);
        let definition = PerduraDefinition { foreign_keys, foreign_key_count, copy_of, ..definition };
        // SAFETY: all pointers are to live values.
        unsafe { perdura_table_create(self.engine, path.as_ptr(), &definition) }
    }

    pub fn open(&self, path: &str, version: &[u8]) -> Result<Cursor, PerduraCode> {
        self.open_with(path, version, &[])
    }

    pub fn open_with(&self, path: &str, version: &[u8], indexes: &[PerduraIndex]) -> Result<Cursor, PerduraCode> {
        let path = CString::new(path).unwrap();
        let fields = fields();
        let definition = definition(&fields, version, &[], indexes);
        let mut cursor = null_mut();
        // SAFETY: all pointers are to live values.
        match unsafe { perdura_cursor_open(self.engine, path.as_ptr(), &definition, &mut cursor) } {
            PerduraCode::Ok => Ok(Cursor(cursor)),
            code => Err(code),
        }
    }

    /// Creates a table and opens it.
    pub fn table(&self, path: &str) -> Cursor {
        ok(self.create(path, b"v1", b"frm"));
        self.open(path, b"v1").expect("an open table")
    }

    pub fn session(&self) -> Session {
        let hooks = PerduraWaitHooks { begin: None, end: None, conflict: None, statement: None, context: null_mut() };
        // SAFETY: the engine is open.
        Session(unsafe { perdura_session_begin(self.engine, hooks) })
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // SAFETY: tests end their sessions and cursors before.
        unsafe { perdura_close(self.engine) }
    }
}

fn open_at(directory: &tempfile::TempDir) -> Result<*mut PerduraEngine, PerduraCode> {
    let path = CString::new(directory.path().to_str().unwrap()).unwrap();
    let options = PerduraOptions {
        directory: path.as_ptr(),
        log_directory: null(),
        create_directory: false,
        emulate: true,
        require_dax: false,
        journal_bytes: 32 << 20,
        checkpoint_log_bytes: 64 << 20,
        checkpoint_interval_ms: 1000,
        accept_dirty_shutdown: false,
        emulate_model: null(),
        prefault: false,
        prefault_threads: 1,
        prefault_wait: false,
        kept_file_bytes: 1 << 20,
        numa: true,
        data_file_size: 4 << 20,
        open_files: 100,
        log_lanes: 2,
        log_lane_size: 256 << 10,
        log_generations: 2,
        log_generations_max: 4,
        log_path: null(),
        log_buffer_size: 1 << 20,
        log_write_ahead_size: 0,
        lock_wait_ms: WAIT_MS,
        transaction_memory: 1 << 20,
    };
    let mut engine = null_mut();
    // SAFETY: all pointers are to live values.
    match unsafe { perdura_open(&options, &mut engine) } {
        PerduraCode::Ok => Ok(engine),
        code => Err(code),
    }
}

/// Records of the tests: a NULL byte, an id of 4 bytes, a name of up to 20, a blob with 4 bytes of
/// length.
pub const RECORD_BYTES: usize = 1 + 4 + 21 + 12;

fn fields() -> [PerduraField; 3] {
    let base = PerduraField { kind: 0, length_bytes: 0, null_mask: 0, null_offset: 0, offset: 0, length: 0 };
    [
        PerduraField { kind: PERDURA_FIELD_FIXED, offset: 1, length: 4, ..base },
        PerduraField { kind: PERDURA_FIELD_VARCHAR, length_bytes: 1, null_mask: 1, offset: 5, length: 20, ..base },
        PerduraField { kind: PERDURA_FIELD_BLOB, length_bytes: 4, null_mask: 2, offset: 26, ..base },
    ]
}

fn definition(fields: &[PerduraField], version: &[u8], frm: &[u8], indexes: &[PerduraIndex]) -> PerduraDefinition {
    PerduraDefinition {
        version: version.as_ptr(),
        version_bytes: version.len(),
        frm: if frm.is_empty() { null() } else { frm.as_ptr() },
        frm_bytes: frm.len(),
        fields: fields.as_ptr(),
        field_count: fields.len(),
        record_bytes: RECORD_BYTES as u32,
        null_bytes: 1,
        indexes: indexes.as_ptr(),
        index_count: indexes.len(),
        foreign_keys: null(),
        foreign_key_count: 0,
        copy_of: std::ptr::null(),
    }
}

/// A row of the tests' table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    pub id: u32,
    pub name: Option<String>,
    pub blob: Option<Vec<u8>>,
}

pub fn row(id: u32, name: &str) -> Row {
    Row { id, name: Some(name.to_owned()), blob: None }
}

impl Row {
    pub fn record(&self) -> [u8; RECORD_BYTES] {
        let mut record = [0; RECORD_BYTES];
        record[1..5].copy_from_slice(&self.id.to_le_bytes());
        match &self.name {
            None => record[0] |= 1,
            Some(name) => {
                record[5] = name.len() as u8;
                record[6..6 + name.len()].copy_from_slice(name.as_bytes());
            }
        }
        match &self.blob {
            None => record[0] |= 2,
            Some(blob) => {
                record[26..30].copy_from_slice(&(blob.len() as u32).to_le_bytes());
                record[30..38].copy_from_slice(&(blob.as_ptr() as usize).to_ne_bytes());
            }
        }
        record
    }

    pub fn of(record: &[u8; RECORD_BYTES]) -> Row {
        let blob = || {
            let bytes = u32::from_le_bytes(record[26..30].try_into().unwrap()) as usize;
            let pointer = usize::from_ne_bytes(record[30..38].try_into().unwrap()) as *const u8;
            // SAFETY: the record was just read, in a statement that is not over.
            unsafe { std::slice::from_raw_parts(pointer, bytes) }.to_vec()
        };
        let name = || String::from_utf8(record[6..6 + usize::from(record[5])].to_vec()).unwrap();
        Row {
            id: u32::from_le_bytes(record[1..5].try_into().unwrap()),
            name: (record[0] & 1 == 0).then(name),
            blob: (record[0] & 2 == 0).then(blob),
        }
    }
}

/// A session, ended when dropped.
pub struct Session(pub *mut PerduraSession);

// SAFETY: a test uses a session in one thread at a time; kill is made for others.
unsafe impl Sync for Session {}
// SAFETY: as above.
unsafe impl Send for Session {}

impl Drop for Session {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { perdura_session_end(self.0) }
    }
}

impl Session {
    pub fn begin(&self, read_committed: bool) {
        self.begin_at(match read_committed {
            true => PerduraIsolation::ReadCommitted,
            false => PerduraIsolation::RepeatableRead,
        });
    }

    pub fn begin_at(&self, isolation: PerduraIsolation) {
        // SAFETY: the session is live and used by this thread.
        ok(unsafe { perdura_statement_begin(self.0, isolation, WAIT_MS) });
    }

    pub fn end_statement(&self) {
        // SAFETY: as above.
        ok(unsafe { perdura_statement_end(self.0) });
    }

    pub fn commit(&self) {
        // SAFETY: as above.
        ok(unsafe { perdura_commit(self.0) });
    }

    pub fn rollback(&self) {
        // SAFETY: as above.
        ok(unsafe { perdura_rollback(self.0) });
    }
}

/// An open table, closed when dropped.
pub struct Cursor(pub *mut PerduraCursor);

// SAFETY: a test uses a cursor in one thread at a time.
unsafe impl Send for Cursor {}
// SAFETY: as above.
unsafe impl Sync for Cursor {}

impl Drop for Cursor {
    fn drop(&mut self) {
        // SAFETY: nobody uses it any more.
        unsafe { perdura_cursor_close(self.0) }
    }
}

impl Cursor {
    pub fn insert(&self, session: &Session, row: &Row) -> PerduraCode {
        // SAFETY: the record is one of this table, its blob alive.
        unsafe { perdura_insert(self.0, session.0, row.record().as_ptr(), null()) }
    }

    pub fn prepare(&self, lock: PerduraLock) {
        // SAFETY: the cursor is open.
        ok(unsafe { perdura_cursor_prepare(self.0, lock, false) });
    }

    /// Reads the scan's next row; `None` at the end.
    pub fn next(&self, session: &Session) -> Result<Option<Row>, PerduraCode> {
        let mut record = [0xEE; RECORD_BYTES];
        // SAFETY: the record has the table's bytes.
        match unsafe { perdura_scan_next(self.0, session.0, record.as_mut_ptr()) } {
            PerduraCode::Ok => Ok(Some(Row::of(&record))),
            PerduraCode::End => Ok(None),
            code => Err(code),
        }
    }

    pub fn start_scan(&self, session: &Session) {
        // SAFETY: both are live.
        ok(unsafe { perdura_scan_begin(self.0, session.0) });
    }

    /// Scans all rows, within the session's statement.
    pub fn rows(&self, session: &Session) -> Vec<Row> {
        self.start_scan(session);
        let rows = std::iter::from_fn(|| self.next(session).expect("a row or the end")).collect();
        // SAFETY: the cursor is open.
        unsafe { perdura_scan_end(self.0) };
        rows
    }

    pub fn update(&self, session: &Session, row: &Row) -> PerduraCode {
        // SAFETY: the record is one of this table, its blob alive.
        unsafe { perdura_update(self.0, session.0, row.record().as_ptr(), null(), 0) }
    }

    pub fn delete(&self, session: &Session) -> PerduraCode {
        // SAFETY: both are live.
        unsafe { perdura_delete(self.0, session.0, null()) }
    }

    pub fn read(&self, session: &Session, position: u64) -> Result<Option<Row>, PerduraCode> {
        let mut record = [0; RECORD_BYTES];
        // SAFETY: the record has the table's bytes.
        match unsafe { perdura_read(self.0, session.0, position, record.as_mut_ptr()) } {
            PerduraCode::Ok => Ok(Some(Row::of(&record))),
            PerduraCode::End => Ok(None),
            code => Err(code),
        }
    }

    pub fn position(&self) -> u64 {
        // SAFETY: the cursor is open.
        unsafe { perdura_position(self.0) }
    }
}
