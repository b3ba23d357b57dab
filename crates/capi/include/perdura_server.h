/* perdura_server.h: Perdura's pools for the plugin of a SQL server. Made from src/server and headers of crates/capi.

   A pool keeps tables in persistent memory. The plugin describes a table by the server's own definition
   (an frm image) and by the layout of its records; it then reads and changes rows through cursors, in
   the transactions of its sessions. Programs without a SQL server want perdura_map.h instead.

   To make it anew from src/server and headers/perdura_server.h.in:
   PERDURA_BLESS=1 cargo test -p perdura-capi --test header
   Link with libperdura_capi.a, what `pkg-config --libs libpmem2` says, and -lpthread -ldl -lm.

   CONVENTIONS

   Outcomes. A call that can fail returns a PerduraCode. PERDURA_CODE_OK and PERDURA_CODE_END are no
   failures, all others are. Below, codes go without their prefix. "Errors" names the failures that
   belong to the call. Besides those, a call that stores to the pool may return DEVICE_FULL,
   READ_ONLY_POOL or MEDIUM, a call that reads it DAMAGED, and any call INTERNAL. A failed call stores no
   result, with two exceptions: RECORD_CHANGED from a call that reads the next row fills in the record, and DAMAGED
   may leave a part of it overwritten.

   Messages. A failed call leaves a message with its thread, for a person: what failed, where, and what
   to do. The thread's next failure replaces it. perdura_message copies it.

   Strings and bytes. A `const char *` is a string that ends with a zero byte; a `uint8_t *` comes with a
   length and has none. Texts are UTF-8. Lengths and sizes are in bytes. Tables are named by the server's
   paths, whose last two parts are the database and the table in the server's file name encoding.

   Records. A record is the server's buffer of one row, as long and laid out as its PerduraDefinition
   says. A blob's pointer in a record that was read refers into the pool: it is valid until the session's
   statement or transaction ends.

   Keys. A row has one key in each index of its table, made by the plugin. The order of the keys' bytes is
   the order of the rows in the index, and no key of an index begins another one.

   Pointers. No pointer may be null unless the call says so. Arguments are used until the call returns,
   and no longer; only the functions and contexts of PerduraWaitHooks and of perdura_set_notice_handler
   are kept.

   Ownership. The caller closes, ends or releases, once, what it opened, began or fetched. Cursors are
   closed and sessions ended before their pool is closed; definitions and reports may outlive it.

   Threads. Any number of threads may use a pool. One thread at a time uses a session, and with it the
   cursors that are passed along; it need not be the same thread always. The two exceptions are
   perdura_session_kill, which may come from any thread, and perdura_commit_ordered, which comes from
   another thread while the session's own waits.

   Callbacks return normally: no exception and no longjmp may leave them.

   Defects. No exception leaves a call. If an internal error shows that the library has a defect, the
   call returns INTERNAL and the pool fails stop: it is read, but refuses every further change with
   READ_ONLY_POOL. */

#ifndef PERDURA_SERVER_H
#define PERDURA_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* -- Outcomes and messages */

// Outcome of a call. From NOT_FOUND on, a failure with a message.
typedef enum PerduraCode {
  // Done.
  PERDURA_CODE_OK = 0,
  // There is no (further) row.
  PERDURA_CODE_END,
  // There is no such table, row, savepoint or prepared transaction.
  PERDURA_CODE_NOT_FOUND,
  // Another table has the name.
  PERDURA_CODE_EXISTS,
  // The row lock did not come free in time. Roll the statement back.
  PERDURA_CODE_LOCK_WAIT_TIMEOUT,
  // To wait for the row lock would have been a deadlock. Roll the transaction back, and run it again.
  PERDURA_CODE_DEADLOCK,
  // The row was changed after the transaction's snapshot. Roll the transaction back, and run it again.
  PERDURA_CODE_RECORD_CHANGED,
  // A kill interrupted the wait for the row lock.
  PERDURA_CODE_KILLED,
  // The file system has no room. Roll the statement back.
  PERDURA_CODE_DEVICE_FULL,
  // The transaction's redo does not fit in the log. The transaction has been rolled back.
  PERDURA_CODE_LOG_FULL,
  // The table has as many data files as it can have.
  PERDURA_CODE_TABLE_FULL,
  // The row has more bytes than a row may have.
  PERDURA_CODE_ROW_TOO_LARGE,
  // Bytes in the pool are not what they must be. Check the pool with `perdura check`.
  PERDURA_CODE_DAMAGED,
  // This build cannot do it.
  PERDURA_CODE_NOT_SUPPORTED,
  // The pool has failed stop and takes no more changes. Restart the server.
  PERDURA_CODE_READ_ONLY_POOL,
  // A setting or a name is not allowed.
  PERDURA_CODE_CONFIGURATION,
  // The system refused access to the pool's files: not DAX, in use by another process, I/O.
  PERDURA_CODE_MEDIUM,
  // There is no memory.
  PERDURA_CODE_OUT_OF_MEMORY,
  // The table's definition in the pool is another one than the caller's, or newer than the transaction's
  // snapshot.
  PERDURA_CODE_DEFINITION_CHANGED,
  // Another row has the key in an index that is unique.
  PERDURA_CODE_DUPLICATE_KEY,
  // A defect: the pool has failed stop.
  PERDURA_CODE_INTERNAL,
} PerduraCode;

// Copies the message of the calling thread's last failure to `target`, cut to `bytes` bytes and ended with a
// zero byte.
void perdura_message(uint8_t *target, size_t bytes);

/* -- Pools */

// An open pool.
typedef struct PerduraEngine PerduraEngine;

// Where a pool is and how it runs.
typedef struct PerduraOptions {
  // The pool's directory, as a path.
  const char *directory;
  // Makes the directory if it is missing.
  bool create_directory;
  // Goes on if the directory is not on DAX: data then survive a crash of the process, not a loss of power.
  bool emulate;
  // Faults files in ahead of their use.
  bool prefault;
  // Threads that fault files in.
  uint32_t prefault_threads;
  // Size of a table's data files once the table has grown.
  uint64_t data_file_size;
  // Data files of open tables beyond which idle tables are closed.
  uint32_t open_files;
  // Lanes of a log generation. Counts when the pool is created.
  uint32_t log_lanes;
  // Size of a lane. Counts when the pool is created.
  uint64_t log_lane_size;
  // Log generations to begin with, and to which the log shrinks back.
  uint32_t log_generations;
  // Log generations that the log may grow to.
  uint32_t log_generations_max;
  // How long a transaction waits for a row lock if no statement has said it, in milliseconds.
  uint64_t lock_wait_ms;
  // DRAM that a transaction's write set may take before its words are spilled to the medium, in bytes.
  uint64_t transaction_memory;
} PerduraOptions;

// Opens the pool in a directory, recovering it after a crash. Creates the pool if the directory is empty.
//
// Errors: MEDIUM, CONFIGURATION, DAMAGED, DEVICE_FULL.
PerduraCode perdura_open(const PerduraOptions *options, PerduraEngine **engine);

// Closes a pool whose sessions have ended and whose cursors are closed. Prepared transactions stay prepared.
void perdura_close(PerduraEngine *engine);

// Switches pre-fault on or off.
void perdura_set_prefault(const PerduraEngine *engine, bool enabled);
// Sets the DRAM that a transaction's write set may take before its words are spilled to the medium, in bytes.
// It applies to transactions under way as well.
void perdura_set_transaction_memory(const PerduraEngine *engine, uint64_t bytes);

/* -- Definitions of tables */

// A virtual column, which rows do not store.
#define PERDURA_FIELD_VIRTUAL 0

// A column of a fixed number of bytes.
#define PERDURA_FIELD_FIXED 1

// A column that holds a length, then the content.
#define PERDURA_FIELD_VARCHAR 2

// A column that holds a length, then a pointer to the content.
#define PERDURA_FIELD_BLOB 3

// A column of a fixed number of bytes that mostly end in spaces, which rows do not store.
#define PERDURA_FIELD_PADDED 4

// Where a column lies in a record.
typedef struct PerduraField {
  // One of the PERDURA_FIELD constants.
  uint8_t kind;
  // Width of a length, in bytes: 1 or 2 for a varchar, 1 to 4 for a blob, 0 otherwise.
  uint8_t length_bytes;
  // The column's bit in its NULL byte; 0 if the column cannot be NULL.
  uint8_t null_mask;
  // Offset of the NULL byte in the record.
  uint32_t null_offset;
  // Offset of the column in the record.
  uint32_t offset;
  // Bytes of a fixed or padded column, most bytes of a varchar's content; 0 for a blob.
  uint32_t length;
} PerduraField;

// An index of a table. Every row has one key in it, made by the plugin: bytes in whose order the rows are
// found.
typedef struct PerduraIndex {
  // No two rows have the same key, except keys that say that they may repeat.
  bool unique;
  // Length of every key; 0 if the lengths differ.
  uint16_t key_bytes;
} PerduraIndex;

// A table as the server defines it.
typedef struct PerduraDefinition {
  // The server's id of the definition. Null for a partition.
  const uint8_t *version;
  // Length of the id.
  size_t version_bytes;
  // The server's definition (frm image), by which another server finds the table. Null if the server keeps
  // it.
  const uint8_t *frm;
  // Length of the definition.
  size_t frm_bytes;
  // The columns.
  const PerduraField *fields;
  // Number of columns.
  size_t field_count;
  // Length of a record.
  uint32_t record_bytes;
  // Bytes of NULL bits at the start of a record.
  uint32_t null_bytes;
  // The indexes.
  const PerduraIndex *indexes;
  // Number of indexes.
  size_t index_count;
} PerduraDefinition;

/* -- Tables */

// Creates a table, durably.
//
// Errors: EXISTS, NOT_SUPPORTED (a record layout that this build does not understand), DEVICE_FULL.
PerduraCode perdura_table_create(const PerduraEngine *engine, const char *path,
    const PerduraDefinition *definition);

// Drops a table, durably.
//
// Errors: NOT_FOUND.
PerduraCode perdura_table_drop(const PerduraEngine *engine, const char *path);

// Renames a table, durably. A table that the server has filled under a name of its own (`#sql...`) to take
// another's place refuses the snapshots taken before.
//
// Errors: NOT_FOUND, EXISTS.
PerduraCode perdura_table_rename(const PerduraEngine *engine, const char *from, const char *to);

// Whether the pool has the table.
bool perdura_table_exists(const PerduraEngine *engine, const char *path);

// Whether the pool's definition of the table has this id.
bool perdura_table_has_version(const PerduraEngine *engine, const char *path, const uint8_t *version,
    size_t bytes);

/* -- Finding tables, and what a server's last run left behind */

// The server's definition of a table (frm image).
typedef struct PerduraFrm PerduraFrm;

// Fetches the server's definition of a table. Release it with perdura_frm_release.
//
// Errors: NOT_FOUND if the pool has no such table, or the server keeps the definition.
PerduraCode perdura_frm_fetch(const PerduraEngine *engine, const char *path, PerduraFrm **frm);

// The definition's bytes, valid until it is released. `bytes` gets their number.
const uint8_t *perdura_frm_data(const PerduraFrm *frm, size_t *bytes);

// Releases a definition.
void perdura_frm_release(PerduraFrm *frm);

// Calls `found` with the name of each table of `database` that users see and whose definition the pool keeps,
// until it returns true. Both names are in the server's file name encoding.
PerduraCode perdura_tables_list(const PerduraEngine *engine, const char *database,
    bool (*found)(void *context, const char *table), void *context);

// Drops the temporary tables of the server's last run. To be called before the server recovers its DDL.
PerduraCode perdura_drop_temporary_tables(const PerduraEngine *engine);

// Drops the tables that the server's own DDL left under names of its own (`#sql...`) when a crash interrupted
// it. To be called after the server has finished or undone that DDL. Calls `kept` with the name of each old
// table of an ALTER that is still there: it stays, for it may be the only copy.
PerduraCode perdura_drop_ddl_garbage(const PerduraEngine *engine, void (*kept)(const char *table));

/* -- Sessions */

// A connection's session. It runs one transaction after the other.
typedef struct PerduraSession PerduraSession;

// How a session tells the server of its waits, and asks about them. Each function may be null.
typedef struct PerduraWaitHooks {
  // Called before the session's thread waits, so that a thread pool can run another.
  void (*begin)(void *context);
  // Called after the wait.
  void (*end)(void *context);
  // Called before a wait for each session that holds the row or is ahead in its queue, with the contexts of
  // the waiter and of that session, whose transaction cannot end meanwhile. Returns whether the server will
  // kill that session: then the wait for it is no deadlock. May call nothing of this library: the call comes
  // under internal locks.
  bool (*conflict)(void *waiter, void *holder);
  // Copies the statement that the session executes to `target`, cut to `bytes` bytes, and returns how many it
  // copied. Called from any thread, under internal locks as above.
  size_t (*statement)(void *context, uint8_t *target, size_t bytes);
  // Passed to every function.
  void *context;
} PerduraWaitHooks;

// Begins a session. Null only after a defect.
PerduraSession *perdura_session_begin(const PerduraEngine *engine, PerduraWaitHooks hooks);

// Ends a session. Rolls back its transaction, unless that is prepared: then it stays prepared.
void perdura_session_end(PerduraSession *session);

// Names the session in reports: `connection` is the server's number of it, `user` and `host` are texts that
// end with a NUL; null is an empty one. To be called again when one of them changes, with no transaction
// active.
void perdura_session_identify(const PerduraSession *session, uint64_t connection, const char *user,
    const char *host);

// Interrupts the session's wait for a row lock, if it waits. From any thread.
void perdura_session_kill(const PerduraSession *session);

/* -- Statements and transactions */

// What the statements of a transaction see of others.
typedef enum PerduraIsolation {
  // Each statement sees what was committed when it began.
  PERDURA_ISOLATION_READ_COMMITTED = 0,
  // Reads that lock nothing see what was committed at the transaction's first; other statements work on the
  // newest rows.
  PERDURA_ISOLATION_CONSISTENT_READS,
  // All statements see what was committed at the transaction's first consistent read. To change or lock a row
  // that somebody has changed since is RECORD_CHANGED.
  PERDURA_ISOLATION_REPEATABLE_READ,
  // As if the transactions ran one after the other: cursors lock the tables that they read.
  PERDURA_ISOLATION_SERIALIZABLE,
} PerduraIsolation;

// Begins a statement, and a transaction of this isolation if none is active. The statement waits up to
// `lock_wait_ms` milliseconds for a lock. Does nothing within a statement.
PerduraCode perdura_statement_begin(const PerduraSession *session, PerduraIsolation isolation,
    uint64_t lock_wait_ms);

// Whether the session is within a statement.
bool perdura_statement_is_open(const PerduraSession *session);

// Ends a statement of a transaction that goes on. Blobs read by it are no longer valid. Does nothing outside
// a statement.
PerduraCode perdura_statement_end(const PerduraSession *session);

// Rolls back what the statement wrote, and ends it. Does nothing outside a statement.
PerduraCode perdura_statement_rollback(const PerduraSession *session);

// Takes the transaction's snapshot now, so that it agrees with the binary log's position. Does nothing at
// READ COMMITTED and SERIALIZABLE.
PerduraCode perdura_take_snapshot(const PerduraSession *session);

// Whether the transaction has written nothing so far, and locked no table.
bool perdura_keeps_no_table(const PerduraSession *session);

// Commits the transaction: durable and visible on return. On failure it is rolled back.
//
// Errors: LOG_FULL, DEVICE_FULL, READ_ONLY_POOL.
PerduraCode perdura_commit(const PerduraSession *session);

// Rolls the transaction back.
//
// Errors: NOT_SUPPORTED after perdura_commit_ordered: the commit is durable.
PerduraCode perdura_rollback(const PerduraSession *session);

/* -- Savepoints */

// Sets a savepoint; `id` gets its name. Savepoints end with the transaction.
PerduraCode perdura_savepoint(const PerduraSession *session, uint64_t *id);

// Rolls back what was written since a savepoint. The savepoint stays, later ones go.
//
// Errors: NOT_FOUND if the transaction has no such savepoint; nothing is rolled back.
PerduraCode perdura_rollback_to_savepoint(const PerduraSession *session, uint64_t id);

// Releases one savepoint; later ones stay, since a server that sets a name again releases only the old
// savepoint. Memory kept for it goes with the transaction.
//
// Errors: NOT_FOUND if the transaction has no such savepoint.
PerduraCode perdura_release_savepoint(const PerduraSession *session, uint64_t id);

/* -- Two-phase commit */

// Prepares the transaction under the name `xid`: from here on it outlives its session and the server, until
// it is committed or rolled back.
//
// Errors: LOG_FULL, DEVICE_FULL, READ_ONLY_POOL; the transaction is rolled back.
PerduraCode perdura_prepare(const PerduraSession *session, const uint8_t *xid, size_t bytes);

// Gives a prepared transaction its place in the order of commits. To be called by the binary log's group
// leader, in the binary log's order, while the session's own thread waits; perdura_commit then ends the
// commit.
void perdura_commit_ordered(const PerduraSession *session);

// Calls `found` with the name of each prepared transaction that no session holds.
PerduraCode perdura_prepared_list(const PerduraEngine *engine,
    void (*found)(void *context, const uint8_t *xid, size_t bytes), void *context);

// Commits or rolls back the prepared transaction `xid`, which no session holds: after a restart, or after its
// connection ended.
//
// Errors: NOT_FOUND.
PerduraCode perdura_prepared_decide(const PerduraEngine *engine, const uint8_t *xid, size_t bytes,
    bool commit);

/* -- Cursors: tables opened by a handler of the server */

// A table opened by a handler of the server.
typedef struct PerduraCursor PerduraCursor;

// Opens a table for a handler of the server. Close it with perdura_cursor_close.
//
// Errors: NOT_FOUND, DEFINITION_CHANGED if the pool has another definition of the table than the server.
PerduraCode perdura_cursor_open(const PerduraEngine *engine, const char *path,
    const PerduraDefinition *definition, PerduraCursor **cursor);

// Closes a cursor.
void perdura_cursor_close(PerduraCursor *cursor);

// How a statement locks the rows that it reads.
typedef enum PerduraLock {
  // It locks none.
  PERDURA_LOCK_NONE = 0,
  // Shared: it keeps writers out.
  PERDURA_LOCK_SHARED,
  // Exclusively: it keeps out everybody else who locks.
  PERDURA_LOCK_EXCLUSIVE,
  // Exclusively, for a statement that changes rows. Once the transaction is bound to a snapshot, or has
  // locked the table, the statement reads unlocked and locks a row when it changes it.
  PERDURA_LOCK_WRITE,
} PerduraLock;

// Prepares the cursor for a statement: how it locks the rows that it reads, and whether it skips rows that
// others have locked.
PerduraCode perdura_cursor_prepare(PerduraCursor *cursor, PerduraLock lock, bool skip_locked);

// Ends a statement's use of the cursor.
void perdura_cursor_reset(PerduraCursor *cursor);
// Lets the statement that begins go on with the scan, or in the index, where the one before has come to. It
// has a snapshot of its own, as any statement. Nothing is read before the next scan_next or index_step.
void perdura_cursor_go_on(PerduraCursor *cursor);

// Sets the columns that reads fill in: `columns` is a bitmap with a bit for each column of the table, least
// significant bit first. Null is all columns.
void perdura_cursor_set_columns(PerduraCursor *cursor, const uint8_t *columns);

// Sets whether the caller claims the rows that it uses (perdura_claim). A scan then locks no row by itself.
void perdura_cursor_claims(PerduraCursor *cursor, bool claims);

// Sets whether the caller is going to change the row whose key an insert meets: that row is then locked
// before the insert returns DUPLICATE_KEY.
void perdura_cursor_locks_duplicates(PerduraCursor *cursor, bool locks);

// Empties the cursor's table, durably. No other cursor may be open on it.
PerduraCode perdura_table_truncate(const PerduraEngine *engine, PerduraCursor *cursor);

// Sizes of a table.
typedef struct PerduraTableInfo {
  // Estimate of the committed rows.
  uint64_t rows;
  // Size of the data files.
  uint64_t data_bytes;
  // Bytes of the data files that hold nothing.
  uint64_t free_bytes;
  // When a commit last changed the table, in seconds since 1970; 0 if none has since the pool was opened.
  uint64_t changed_at;
} PerduraTableInfo;

// Estimate of the committed rows of the cursor's table.
uint64_t perdura_table_rows(const PerduraCursor *cursor);
// Gets the sizes of the cursor's table. Reads no rows.
void perdura_table_info(const PerduraCursor *cursor, PerduraTableInfo *info);

/* -- Reading rows */

// Begins a scan of the table. It sees what the transaction wrote before, and nothing that it writes during
// the scan. Under SERIALIZABLE it locks the table first, as do the other reads.
//
// Errors: LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
PerduraCode perdura_scan_begin(PerduraCursor *cursor, const PerduraSession *session);

// Reads the scan's next row into `record`. END after the last.
PerduraCode perdura_scan_next(PerduraCursor *cursor, const PerduraSession *session, uint8_t *record);

// Ends the scan.
void perdura_scan_end(PerduraCursor *cursor);

// Names the row that was read or inserted last, for perdura_read. 0 if there is none.
uint64_t perdura_position(const PerduraCursor *cursor);

// Reads the row that perdura_position named `row`. END if it is gone.
PerduraCode perdura_read(PerduraCursor *cursor, const PerduraSession *session, uint64_t row, uint8_t *record);

// Locks the row read last, which the caller is going to use. Does nothing if it is locked.
//
// END if the row is not to be used as it was read. If it has changed, the scan's next row is the same row
// again, as it is now and locked; it is left out if it is gone. If the statement skips locked rows and this
// is one, the scan goes on past it. If the transaction has a snapshot, the changed row comes with
// RECORD_CHANGED: that is a conflict only if the caller would use the row as it is now.
//
// Errors: LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
PerduraCode perdura_claim(PerduraCursor *cursor, const PerduraSession *session);

// Releases the lock on the row read last, if that read or its claim took it. For rows that the statement
// turns out not to use.
void perdura_unlock(PerduraCursor *cursor, const PerduraSession *session);

/* -- Keys, and reading rows through an index */

// The longest key.
#define PERDURA_KEY_BYTES_MAX 3072

// A row's key in one of the table's indexes.
typedef struct PerduraKey {
  // The key.
  const uint8_t *bytes;
  // Its length, at most PERDURA_KEY_BYTES_MAX.
  uint32_t length;
  // Another row may have the key too, though the index is unique.
  bool may_repeat;
} PerduraKey;

// A row's key in an index changes.
typedef struct PerduraKeyChange {
  // Number of the index.
  uint32_t index;
  // The key that the row has.
  PerduraKey before;
  // The key that it gets.
  PerduraKey after;
} PerduraKeyChange;

// Where a range of keys begins or ends.
typedef enum PerduraBoundKind {
  // It does not: the range goes on to the first or the last key.
  PERDURA_BOUND_KIND_NONE = 0,
  // At the keys that begin with the bytes, which belong to the range.
  PERDURA_BOUND_KIND_INCLUDED,
  // At the keys that begin with the bytes, which do not belong to the range.
  PERDURA_BOUND_KIND_EXCLUDED,
} PerduraBoundKind;

// An end of a range of keys.
typedef struct PerduraBound {
  // Whether there is one, and which side of it the keys at it are.
  PerduraBoundKind kind;
  // The beginning of the keys at this end.
  const uint8_t *bytes;
  // How many bytes.
  uint32_t length;
} PerduraBound;

// Where a step in an index goes.
typedef enum PerduraStep {
  // To the next greater key.
  PERDURA_STEP_NEXT = 0,
  // To the next smaller key.
  PERDURA_STEP_PREVIOUS,
  // To the next greater key, if it begins with what was searched for.
  PERDURA_STEP_NEXT_SAME,
  // To the next smaller key, if it begins with what was searched for.
  PERDURA_STEP_PREVIOUS_SAME,
} PerduraStep;

// Begins to read the index of this number. Reads see what the transaction wrote before. Under SERIALIZABLE
// this locks the table first. `locks` is set to whether reads lock the rows. If they do, the caller compares
// the key of each row that it gets with perdura_index_key, and calls perdura_index_pass if they differ.
//
// Errors: LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
PerduraCode perdura_index_begin(PerduraCursor *cursor, const PerduraSession *session, uint32_t index,
    bool *locks);

// Finds the first row whose key is at `bound` or behind it in the direction of `step`, and reads it into
// `record`. A step to the same key finds only rows whose keys begin with the bound's bytes. `whole` says that
// these are a whole key which does not repeat. END if there is no such row.
//
// Errors: LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED; RECORD_CHANGED as for perdura_scan_next, with the record
// filled in.
PerduraCode perdura_index_seek(PerduraCursor *cursor, const PerduraSession *session, PerduraBound bound,
    PerduraStep step, bool whole, uint8_t *record);

// Goes on to another row, and reads it into `record`. END if there is none.
//
// Errors: those of perdura_index_seek.
PerduraCode perdura_index_step(PerduraCursor *cursor, const PerduraSession *session, PerduraStep step,
    uint8_t *record);

// Releases the row read last, which the caller does not use, and goes on as the last seek or step did.
//
// Errors: those of perdura_index_seek.
PerduraCode perdura_index_pass(PerduraCursor *cursor, const PerduraSession *session, uint8_t *record);

// Sets whether seeks and steps from here on stop at the entry: they fill in no record. Reads must not lock.
void perdura_index_stop_at_entries(PerduraCursor *cursor, bool stops);

// Reads the row of the entry at which the last seek or step has stopped into `record`. END if it is gone.
PerduraCode perdura_index_row(PerduraCursor *cursor, const PerduraSession *session, uint8_t *record);

// Fails with DAMAGED: the key at which the last seek or step has stopped is not one of the index.
PerduraCode perdura_index_damaged(PerduraCursor *cursor, const PerduraSession *session);

// The key by which the row read last was found, valid until the next call on the cursor.
const uint8_t *perdura_index_key(const PerduraCursor *cursor, size_t *bytes);

// Whether a key begins with what was searched for last.
bool perdura_index_is_sought(const PerduraCursor *cursor, const uint8_t *key, size_t length);

// Ends the reading of an index.
void perdura_index_end(PerduraCursor *cursor);

// Estimates how many rows of an index lie between two bounds. Reads no rows.
PerduraCode perdura_index_estimate(PerduraCursor *cursor, const PerduraSession *session, uint32_t index,
    PerduraBound from, PerduraBound to, uint64_t *rows);

// Copies to `key` the key of an entry about `number` of `of` parts of the way through an index, and sets
// `length`. END if the index is empty.
PerduraCode perdura_index_sample(PerduraCursor *cursor, const PerduraSession *session, uint32_t index,
    uint32_t number, uint32_t of, uint8_t *key, size_t *length);

/* -- Changing rows */

// Inserts a row, with a key for each of the table's indexes, in their order. `keys` may be null if there are
// none. Waits for SERIALIZABLE transactions that have read the table, and for those that are changing a key
// that must not repeat.
//
// Errors: DUPLICATE_KEY, of which perdura_duplicate tells more; LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED,
// ROW_TOO_LARGE, DEVICE_FULL, TABLE_FULL, DEFINITION_CHANGED.
PerduraCode perdura_insert(PerduraCursor *cursor, const PerduraSession *session, const uint8_t *record,
    const PerduraKey *keys);

// Replaces the row read last by `record`, locking it unless the read has. `changes` are the `change_count`
// indexes in which the row's key changes; it may be null if there are none.
//
// Errors: RECORD_CHANGED, and those of perdura_insert.
PerduraCode perdura_update(PerduraCursor *cursor, const PerduraSession *session, const uint8_t *record,
    const PerduraKeyChange *changes, size_t change_count);

// Deletes the row read last, locking it unless the read has. `keys` are the row's keys, as for
// perdura_insert.
//
// Errors: those of perdura_update.
PerduraCode perdura_delete(PerduraCursor *cursor, const PerduraSession *session, const PerduraKey *keys);

// After DUPLICATE_KEY: the number of the index that has the key already, and in `row` the position of the row
// that has it.
uint32_t perdura_duplicate(const PerduraCursor *cursor, uint64_t *row);

/* -- Counters of AUTO_INCREMENT columns */

// Sets the next value that the table's counter gives out.
PerduraCode perdura_counter_set(const PerduraEngine *engine, PerduraCursor *cursor, uint64_t next);

// The next value of the table's counter.
PerduraCode perdura_counter_next(const PerduraEngine *engine, PerduraCursor *cursor, uint64_t *next);

// Reserves values of the table's counter, durably: nobody gets them again, not even after a crash. Of the
// values that are `offset` and a multiple of `increment`, and not above `max`, it takes the next `wanted` or
// as many as there are. `count` is 0 if there are none.
PerduraCode perdura_counter_reserve(const PerduraEngine *engine, PerduraCursor *cursor, uint64_t offset,
    uint64_t increment, uint64_t wanted, uint64_t max, uint64_t *first, uint64_t *count);

// Notes that a row has `value`, which the table's counter does not give out any more, if it has not already.
PerduraCode perdura_counter_pass(const PerduraEngine *engine, PerduraCursor *cursor, uint64_t value);

/* -- Replication: a replica's search for the row of an event */

// Begins a scan to find the row that the primary changed. It sees no snapshot but every commit that has its
// place in the order of commits, and waits until those are visible. It locks no row: the update or delete
// that follows locks the row found, and fails with RECORD_CHANGED if that is no longer the one that was read.
// The transaction must be READ COMMITTED.
//
// Errors: READ_ONLY_POOL.
PerduraCode perdura_search_begin(PerduraCursor *cursor, const PerduraSession *session);

// Begins the search again if there have been commits since it began; END if not.
PerduraCode perdura_search_again(PerduraCursor *cursor, const PerduraSession *session);

// Begins a search, as perdura_search_begin does, through the index that the cursor reads: the reads that
// follow see every commit that has its place in the order of commits. With `again` it does so if there have
// been commits since it began before; END if not.
//
// Errors: READ_ONLY_POOL.
PerduraCode perdura_index_search(PerduraCursor *cursor, const PerduraSession *session, bool again);

/* -- Checking a table */

// What a check asks and tells its caller.
typedef struct PerduraCheckHooks {
  // Whether to go on, now that `done` of `all` parts of the table are checked. Asked often.
  bool (*goes_on)(void *context, uint64_t done, uint64_t all);
  // Tells of a fault: its row, file and offset, what is wrong there, and the remedy.
  void (*fault)(void *context, const uint8_t *text, size_t bytes);
  // Makes the key that the row in the record has in the index of this number. False if nobody can tell.
  bool (*key)(void *context, uint32_t index, PerduraKey *key);
  // Passed to all functions.
  void *context;
} PerduraCheckHooks;

// Checks the cursor's table as it is committed now, while others read and change it: descriptors, directory
// words and rows with their checksums, or with `quick` the rows' headers instead. It stores nothing, marks
// nothing and locks no row. After a hundred faults it ends.
//
// Errors: DAMAGED if there were faults, of which the caller was told; KILLED if the caller did not let it go
// on.
PerduraCode perdura_table_check(PerduraCursor *cursor, const PerduraSession *session, bool quick,
    uint8_t *record, PerduraCheckHooks hooks);

/* -- Adding and dropping indexes */

// What the building of indexes asks its caller.
typedef struct PerduraBuildHooks {
  // Whether to go on. Asked often.
  bool (*goes_on)(void *context);
  // Is told that the record has been filled in with the next row.
  void (*row)(void *context);
  // Makes the key of that row in the new index of this number. False if it would be too long.
  bool (*key)(void *context, uint32_t index, PerduraKey *key);
  // Passed to all functions.
  void *context;
} PerduraBuildHooks;

// An alteration of a table's indexes under way.
typedef struct PerduraAlteration PerduraAlteration;

// Begins to alter the indexes of the cursor's table to those of `definition`. For each of these, `kept` has
// the number of the same index now, or -1 if it is a new one. Commit the alteration with
// perdura_alter_commit, or end it with perdura_alter_end.
//
// Errors: NOT_SUPPORTED if the columns are others; LOCK_WAIT_TIMEOUT; TABLE_FULL; CONFIGURATION.
PerduraCode perdura_alter_begin(PerduraCursor *cursor, const PerduraDefinition *definition,
    const int32_t *kept, PerduraAlteration **alteration);

// Builds the new indexes from the rows that are committed. Each row is filled into `record`, a record of the
// table. After DUPLICATE_KEY `record` is a row that has the key of another, valid until the alteration ends,
// and `refused` the index.
//
// Errors: DUPLICATE_KEY; KILLED if the caller did not let it go on; CONFIGURATION if a key is too long;
// DEVICE_FULL; TABLE_FULL; DAMAGED.
PerduraCode perdura_alter_build(PerduraCursor *cursor, PerduraAlteration *alteration, uint8_t *record,
    PerduraBuildHooks hooks, uint32_t *refused);

// Puts an alteration into force, durably, with the definition that the server has from now on; and ends it.
// Snapshots from before cannot read the table if it has new indexes. Other cursors on the table must be
// closed.
//
// Errors: NOT_FOUND, LOCK_WAIT_TIMEOUT, DEVICE_FULL, READ_ONLY_POOL: the table is as it was.
PerduraCode perdura_alter_commit(PerduraCursor *cursor, PerduraAlteration *alteration,
    const PerduraDefinition *definition);

// Ends an alteration that is not to be. The table is as it was.
void perdura_alter_end(PerduraCursor *cursor, PerduraAlteration *alteration);

/* -- Backup */

// Holds the pool still, so that its files can be copied: until perdura_release, everybody who is about to
// store to the pool waits.
//
// Errors: EXISTS if the pool is held already, LOCK_WAIT_TIMEOUT if statements that write are still running
// after `timeout_ms` milliseconds, KILLED if perdura_release came meanwhile. The pool is then not held by
// this call.
PerduraCode perdura_hold(const PerduraEngine *engine, uint64_t timeout_ms);

// Lets a held pool go on. False if it was not held.
bool perdura_release(const PerduraEngine *engine);

/* -- Status */

// Counters of a pool since it was opened, and gauges of what is now.
typedef struct PerduraCounters {
  // Sessions open (gauge).
  uint64_t sessions_open;
  // Sessions begun.
  uint64_t sessions_begun;
  // Transactions begun, those that only read included.
  uint64_t transactions;
  // Commits of transactions that wrote.
  uint64_t commits;
  // Rollbacks of transactions that wrote.
  uint64_t rollbacks;
  // Rows that reads through an index did without: the entry had all that they needed.
  uint64_t rows_not_read;
  // Rows moved out of segments of which little was left.
  uint64_t moved_rows;
  // Fences issued by the process.
  uint64_t fences;
  // Cache lines flushed by the process.
  uint64_t lines_flushed;
  // Bytes that the process has stored through the cache.
  uint64_t bytes_written;
  // Bytes that the process has stored past the cache.
  uint64_t bytes_written_past_cache;
  // Bytes queued for pre-fault (gauge).
  uint64_t prefault_queued_bytes;
  // Bytes pre-faulted.
  uint64_t prefault_done_bytes;
  // Pre-fault requests given up after an error.
  uint64_t prefault_failures;
  // Notices for the error log.
  uint64_t notices;
  // Row lock waits.
  uint64_t lock_waits;
  // Row lock waits that timed out.
  uint64_t lock_timeouts;
  // Deadlocks.
  uint64_t deadlocks;
  // Rows locked (gauge).
  uint64_t locks_held;
  // Sessions waiting for a row lock (gauge).
  uint64_t locks_waited_for;
  // Log generation switches.
  uint64_t generation_switches;
  // Every commit up to this CSN is durable (gauge).
  uint64_t durable_csn;
  // Every commit up to this CSN is visible (gauge).
  uint64_t visible_csn;
  // Every commit up to this CSN is stored: its words are in place on the medium (gauge).
  uint64_t stored_csn;
  // Redo would begin after this CSN (gauge).
  uint64_t checkpoint_csn;
  // Snapshots open (gauge).
  uint64_t snapshots;
  // Versions waiting for purge (gauge).
  uint64_t purge_lag;
  // Bytes of data files (gauge).
  uint64_t data_bytes;
  // Bytes of data files in free segments (gauge).
  uint64_t free_bytes;
  // Data files of open tables, each mapped into memory (gauge).
  uint64_t open_files;
  // 1 if the pool has failed stop (gauge).
  uint64_t failed;
} PerduraCounters;

// Reads the counters.
void perdura_counters(const PerduraEngine *engine, PerduraCounters *target);

// A text for a person.
typedef struct PerduraReport PerduraReport;

// Makes the report of SHOW ENGINE PERDURA STATUS. Null only after a defect. Release it with
// perdura_report_release.
PerduraReport *perdura_report(const PerduraEngine *engine);

// Makes a line for the error log about the medium that the pool lies on. As perdura_report otherwise.
PerduraReport *perdura_medium_report(const PerduraEngine *engine);

// The report's text, in UTF-8 and without a zero byte, valid until it is released. `bytes` gets its length.
// `report` may be null: its text is empty.
const uint8_t *perdura_report_text(const PerduraReport *report, size_t *bytes);

// Releases a report, which may be null.
void perdura_report_release(PerduraReport *report);

// Sets the function that takes notices for the error log: what the pool must say and no statement can report,
// as UTF-8 text of `bytes` bytes without a zero byte. It is called at once with the notices so far, later
// from any thread, as long as the pool is open.
void perdura_set_notice_handler(const PerduraEngine *engine,
    void (*notice)(const uint8_t *text, size_t bytes));

/* -- What happens in a pool, for information_schema */

// What kind of value a column has in a row.
typedef enum PerduraValueKind {
  // NULL.
  PERDURA_VALUE_KIND_NULL = 0,
  // A whole number.
  PERDURA_VALUE_KIND_NUMBER,
  // A time, in milliseconds.
  PERDURA_VALUE_KIND_MILLISECONDS,
  // A text.
  PERDURA_VALUE_KIND_TEXT,
} PerduraValueKind;

// A value of a column.
typedef struct PerduraValue {
  // What the value is.
  PerduraValueKind kind;
  // The number or the milliseconds; else 0.
  uint64_t number;
  // The text; else null.
  const uint8_t *text;
  // Length of the text.
  size_t bytes;
} PerduraValue;

// What perdura_list lists, and the values of a row. What is not known is NULL. A session has the number that
// the status report gives it, a row that of its RID in hexadecimal.
typedef enum PerduraList {
  // The transactions that have begun, oldest first: session, connection, user at host, state, time since it
  // began, isolation level, changes, locks held, bytes of DRAM of its write set, CSN of its oldest snapshot,
  // time since that was taken, statement.
  PERDURA_LIST_TRANSACTIONS = 0,
  // The locks of rows and whole tables in the lock table, those first that somebody waits for: session,
  // connection, table, row, mode, whether it is held or waited for.
  PERDURA_LIST_LOCKS,
  // The waits for locks, each with each session that it waits for: session, connection and statement of the
  // waiter; those of the other session; number of such sessions, unlisted ones included; table, row, mode,
  // time waited.
  PERDURA_LIST_LOCK_WAITS,
  // The tables, none of which is opened for this: id, name, whether it is open, data files, their bytes,
  // bytes in use, free bytes, rows, row changes that wait for purge, free RIDs, parts not swept since the
  // start.
  PERDURA_LIST_SPACE,
  // The indexes, for which no table is opened either: id and name of the table, number of the index, whether
  // it is unique, length of its keys if they have one, state, leaves, entries, bytes, entries in a hundred
  // slots.
  PERDURA_LIST_INDEXES,
} PerduraList;

// Lists what happens in a pool: hands `row` the `count` values of each row, with texts in UTF-8 that are
// valid until it returns, until it returns false. END if there was more than is listed. Nothing is locked
// while `row` runs.
PerduraCode perdura_list(const PerduraEngine *engine, PerduraList list,
    bool (*row)(void *context, const PerduraValue *values, size_t count), void *context);

#ifdef __cplusplus
}
#endif

#endif
