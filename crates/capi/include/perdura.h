/* The C interface of Perdura. Made from crates/capi; `PERDURA_BLESS=1 cargo test -p perdura-capi --test header` makes it anew. */

#ifndef PERDURA_H
#define PERDURA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// A column that is not stored.
#define PERDURA_FIELD_VIRTUAL 0

// A column of always the same number of bytes.
#define PERDURA_FIELD_FIXED 1

// A column with its length in front.
#define PERDURA_FIELD_VARCHAR 2

// A column with its length and a pointer in the record.
#define PERDURA_FIELD_BLOB 3

// Outcome of a call. Everything from `NotFound` on is a failure with a message.
typedef enum PerduraCode {
  // Done.
  PERDURA_CODE_OK = 0,
  // No (further) row.
  PERDURA_CODE_END,
  // No such table or row.
  PERDURA_CODE_NOT_FOUND,
  // The name is taken.
  PERDURA_CODE_EXISTS,
  // A row lock was not free in time; the statement is to be rolled back.
  PERDURA_CODE_LOCK_WAIT_TIMEOUT,
  // Waiting would never have ended; the transaction is to be rolled back.
  PERDURA_CODE_DEADLOCK,
  // The row changed after the snapshot; the transaction is to be rolled back.
  PERDURA_CODE_RECORD_CHANGED,
  // The wait was interrupted by a kill.
  PERDURA_CODE_KILLED,
  // No room on the medium.
  PERDURA_CODE_DEVICE_FULL,
  // The redo does not fit the log; the transaction has been rolled back.
  PERDURA_CODE_LOG_FULL,
  // The table has as many files as it can have.
  PERDURA_CODE_TABLE_FULL,
  // The row has more bytes than a row may have.
  PERDURA_CODE_ROW_TOO_LARGE,
  // Bytes in the pool are not what they must be.
  PERDURA_CODE_DAMAGED,
  // Not something this build does.
  PERDURA_CODE_NOT_SUPPORTED,
  // The pool failed stop and takes no more changes.
  PERDURA_CODE_READ_ONLY_POOL,
  // A setting is out of range.
  PERDURA_CODE_CONFIGURATION,
  // The medium refused.
  PERDURA_CODE_MEDIUM,
  // No memory.
  PERDURA_CODE_OUT_OF_MEMORY,
  // The table has another definition than the caller thinks, or a newer one than the transaction's snapshot.
  PERDURA_CODE_DEFINITION_CHANGED,
  // A defect: the pool has failed stop.
  PERDURA_CODE_INTERNAL,
} PerduraCode;

// How rows are locked when they are read.
typedef enum PerduraLock {
  // Not at all.
  PERDURA_LOCK_NONE = 0,
  // Against writers.
  PERDURA_LOCK_SHARED,
  // Against everybody who locks.
  PERDURA_LOCK_EXCLUSIVE,
  // As Exclusive, for a statement that changes rows: once the transaction has a snapshot, rows are read from it and locked when
  // they are changed.
  PERDURA_LOCK_WRITE,
} PerduraLock;

// An open table.
typedef struct PerduraCursor PerduraCursor;

// An open pool.
typedef struct PerduraEngine PerduraEngine;

// The server's own definition of a table, kept until [`perdura_frm_release`].
typedef struct PerduraFrm PerduraFrm;

// A text for a person, kept until [`perdura_report_release`].
typedef struct PerduraReport PerduraReport;

// A session.
typedef struct PerduraSession PerduraSession;

// Where a column lies in a record.
typedef struct PerduraField {
  // One of the PERDURA_FIELD constants.
  uint8_t kind;
  // Bytes of length of a varchar (1 or 2) or blob (1 to 4); 0 otherwise.
  uint8_t length_bytes;
  // Bit of the NULL byte; 0 if the column cannot be NULL.
  uint8_t null_mask;
  // Offset of the NULL byte in the record.
  uint32_t null_offset;
  // Offset in the record, in bytes.
  uint32_t offset;
  // Bytes of a fixed column, most bytes of content of a varchar; 0 for a blob.
  uint32_t length;
} PerduraField;

// How the server sees a table.
typedef struct PerduraDefinition {
  // The server's id of the definition; null for a partition.
  const uint8_t *version;
  // Its bytes.
  size_t version_bytes;
  // The server's definition, to find the table by; null and 0 when only the layout matters.
  const uint8_t *frm;
  // Its bytes.
  size_t frm_bytes;
  // The columns.
  const struct PerduraField *fields;
  // Their number.
  size_t field_count;
  // Bytes of a record.
  uint32_t record_bytes;
  // Bytes of NULL bits at its start.
  uint32_t null_bytes;
} PerduraDefinition;

// Where a pool is and how it is run. Sizes in bytes.
typedef struct PerduraOptions {
  // Its directory.
  const char *directory;
  // Whether to make the directory if there is none.
  bool create_directory;
  // Whether to go on without DAX: data then survive a crash of the process, not a loss of power.
  bool emulate;
  // Whether files are faulted in ahead of their use.
  bool prefault;
  // Threads that do it.
  uint32_t prefault_threads;
  // Size of a table's data files once it has grown.
  uint64_t data_file_size;
  // Lanes of a log generation; used when the pool is created.
  uint32_t log_lanes;
  // Size of a lane; used when the pool is created.
  uint64_t log_lane_size;
  // Log generations to begin with.
  uint32_t log_generations;
  // Log generations at most.
  uint32_t log_generations_max;
  // How long row locks are waited for, in milliseconds, by sessions that do not say.
  uint64_t lock_wait_ms;
} PerduraOptions;

// What a session tells and asks the server about row lock waits. Any may be null.
typedef struct PerduraWaitHooks {
  // Called before a wait, so that a thread pool can use the time.
  void (*begin)(void*);
  // Called after it.
  void (*end)(void*);
  // Called before a wait, for each session that holds the row or comes first: the contexts of the waiter and of that session,
  // whose transaction cannot end meanwhile. Returns whether that one will be killed, and so is no cause of a deadlock.
  // Called under internal locks: it may call nothing of this library.
  bool (*conflict)(void*, void*);
  // Copies what the session executes to the target, cut to its number of bytes; returns how many were copied. From any thread,
  // under internal locks as above.
  size_t (*statement)(void*, uint8_t*, size_t);
  // Given to all.
  void *context;
} PerduraWaitHooks;

// Numbers for status variables. Since the pool was opened, where not said otherwise.
typedef struct PerduraCounters {
  // Sessions open now.
  uint64_t sessions_open;
  // Sessions begun.
  uint64_t sessions_begun;
  // Transactions begun by sessions, those that only read included.
  uint64_t transactions;
  // Transactions that wrote and were committed.
  uint64_t commits;
  // Transactions that wrote and were rolled back.
  uint64_t rollbacks;
  // Fences issued.
  uint64_t fences;
  // Cache lines flushed.
  uint64_t lines_flushed;
  // Bytes stored through the cache.
  uint64_t bytes_written;
  // Bytes stored past the cache.
  uint64_t bytes_written_past_cache;
  // Bytes pre-fault has to do now.
  uint64_t prefault_queued_bytes;
  // Bytes pre-fault has done.
  uint64_t prefault_done_bytes;
  // Requests that pre-fault gave up because of an error.
  uint64_t prefault_failures;
  // Notices for the error log.
  uint64_t notices;
  // Row lock waits.
  uint64_t lock_waits;
  // Row lock waits that timed out.
  uint64_t lock_timeouts;
  // Deadlocks.
  uint64_t deadlocks;
  // Rows locked now.
  uint64_t locks_held;
  // Sessions waiting for a row now.
  uint64_t locks_waited_for;
  // Log generation switches.
  uint64_t generation_switches;
  // Every CSN up to it is durable.
  uint64_t durable_csn;
  // Every CSN up to it is visible.
  uint64_t visible_csn;
  // Redo would begin after it.
  uint64_t checkpoint_csn;
  // Snapshots open now.
  uint64_t snapshots;
  // Versions waiting to be purged now.
  uint64_t purge_lag;
  // Bytes of data files now.
  uint64_t data_bytes;
  // Bytes of them in free segments now.
  uint64_t free_bytes;
  // 1 if the pool has failed stop.
  uint64_t failed;
} PerduraCounters;

// Sizes of a table, known without looking.
typedef struct PerduraTableInfo {
  // Rows committed, about.
  uint64_t rows;
  // Bytes of its data files.
  uint64_t data_bytes;
  // Bytes of those that hold nothing.
  uint64_t free_bytes;
  // When a commit last changed it, in seconds since 1970; 0 if none did since the pool was opened.
  uint64_t changed_at;
} PerduraTableInfo;



#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Copies the message of the calling thread's last failure to `target`, cut to `bytes` and ended with a zero byte.
//
// # Safety
// `target` must be writable for `bytes` bytes.
void perdura_message(uint8_t *target,
                     size_t bytes);

// Creates a table. Durable on return.
//
// # Safety
// `engine` must be open, `path` a C string, the definition valid.
enum PerduraCode perdura_table_create(const struct PerduraEngine *engine,
                                      const char *path,
                                      const struct PerduraDefinition *definition);

// Drops a table, or NotFound.
//
// # Safety
// `engine` must be open, `path` a C string.
enum PerduraCode perdura_table_drop(const struct PerduraEngine *engine, const char *path);

// Renames a table. If the server filled it to take another's place, snapshots from before this refuse to read it.
//
// # Safety
// `engine` must be open, `from` and `to` C strings.
enum PerduraCode perdura_table_rename(const struct PerduraEngine *engine,
                                      const char *from,
                                      const char *to);

// Empties the cursor's table. No other cursor may be open on it.
//
// # Safety
// `cursor` must be open and used by this thread alone.
enum PerduraCode perdura_table_truncate(struct PerduraCursor *cursor);

// Whether the pool has a table.
//
// # Safety
// `engine` must be open, `path` a C string.
bool perdura_table_exists(const struct PerduraEngine *engine, const char *path);

// Fetches the server's definition of a table, or NotFound if the table has none or is not there.
//
// # Safety
// `engine` must be open, `path` a C string, `frm` writable.
enum PerduraCode perdura_frm_fetch(const struct PerduraEngine *engine,
                                   const char *path,
                                   struct PerduraFrm **frm);

// The definition's bytes, and their number in `bytes`.
//
// # Safety
// `frm` must be fetched and not released, `bytes` writable.
const uint8_t *perdura_frm_data(const struct PerduraFrm *frm, size_t *bytes);

// Releases a definition.
//
// # Safety
// `frm` must be fetched, and nobody may use it any more.
void perdura_frm_release(struct PerduraFrm *frm);

// Calls `found` with the file name of each table a user may see in `database` (a name in the file name encoding) and whose
// definition is in the pool.
// Stops when that returns true.
//
// # Safety
// `engine` must be open, `database` a C string, `found` callable with `context` and a C string.
enum PerduraCode perdura_tables_list(const struct PerduraEngine *engine,
                                     const char *database,
                                     bool (*found)(void*, const char*),
                                     void *context);

// Drops tables that were temporary in the server's last run. Before the server's own recovery.
//
// # Safety
// `engine` must be open.
enum PerduraCode perdura_drop_temporary_tables(const struct PerduraEngine *engine);

// Drops tables the server made for itself in DDL that a crash interrupted, once it has finished or undone that DDL.
// Calls `kept` with the name of each old table of an ALTER that is still there: it may be all that is left of a table.
//
// # Safety
// `engine` must be open, `kept` callable with a C string.
enum PerduraCode perdura_drop_ddl_garbage(const struct PerduraEngine *engine,
                                          void (*kept)(const char*));

// Opens the pool in a directory, recovering it; creates it if the directory is empty.
//
// # Safety
// `options` must be readable, its directory a C string, `engine` writable.
enum PerduraCode perdura_open(const struct PerduraOptions *options, struct PerduraEngine **engine);

// Closes a pool. Prepared transactions stay prepared in it.
//
// # Safety
// `engine` must be open, with no session or cursor left, and nobody may use it any more.
void perdura_close(struct PerduraEngine *engine);

// Holds the pool still, so that its files can be copied, until [`perdura_release`]: whoever would store to it waits. Gives up if
// statements that write do not end within `timeout_ms` milliseconds.
//
// # Safety
// `engine` must be open.
enum PerduraCode perdura_hold(const struct PerduraEngine *engine,
                              uint64_t timeout_ms);

// Lets the pool go again; whether it was held.
//
// # Safety
// `engine` must be open.
bool perdura_release(const struct PerduraEngine *engine);

// Switches pre-fault on or off.
//
// # Safety
// `engine` must be open.
void perdura_set_prefault(const struct PerduraEngine *engine, bool enabled);

// Begins a session. Null only after a defect.
//
// # Safety
// `engine` must be open; the hooks must stay callable until the session ends.
struct PerduraSession *perdura_session_begin(const struct PerduraEngine *engine,
                                             struct PerduraWaitHooks hooks);

// Ends a session. An active transaction is rolled back; a prepared one stays prepared.
//
// # Safety
// `session` must be live, and nobody may use it any more.
void perdura_session_end(struct PerduraSession *session);

// Interrupts the lock wait the session is in, if it is in one. From any thread.
//
// # Safety
// `session` must be live.
void perdura_session_kill(const struct PerduraSession *session);

// Says whose session it is, for reports: the number of its connection, and its user as text. To be called again when the user
// changes, with no transaction active.
//
// # Safety
// As for [`perdura_statement_begin`]; `user` must be readable for `bytes` bytes.
void perdura_session_identify(const struct PerduraSession *session,
                              uint64_t connection,
                              const uint8_t *user,
                              size_t bytes);

// Begins a statement, and a transaction if none is active. Does nothing within a statement.
// `lock_wait_ms` is how long row locks are waited for, in milliseconds.
//
// # Safety
// `session` must be live and used by this thread alone.
enum PerduraCode perdura_statement_begin(const struct PerduraSession *session,
                                         bool read_committed,
                                         uint64_t lock_wait_ms);

// Whether the session is within a statement.
//
// # Safety
// As for [`perdura_statement_begin`].
bool perdura_statement_is_open(const struct PerduraSession *session);

// Ends a statement of a transaction that goes on. Rows read by it are no longer valid.
//
// # Safety
// As for [`perdura_statement_begin`].
enum PerduraCode perdura_statement_end(const struct PerduraSession *session);

// Takes back what the statement wrote, and ends it.
//
// # Safety
// As for [`perdura_statement_begin`].
enum PerduraCode perdura_statement_rollback(const struct PerduraSession *session);

// Takes the transaction's snapshot now, in agreement with the binary log.
//
// # Safety
// As for [`perdura_statement_begin`].
enum PerduraCode perdura_take_snapshot(const struct PerduraSession *session);

// Whether the transaction wrote nothing so far.
//
// # Safety
// As for [`perdura_statement_begin`].
bool perdura_is_read_only(const struct PerduraSession *session);

// Makes the transaction able to commit at any time, under the name `xid`.
//
// # Safety
// As for [`perdura_statement_begin`]; `xid` must be readable for `bytes` bytes.
enum PerduraCode perdura_prepare(const struct PerduraSession *session,
                                 const uint8_t *xid,
                                 size_t bytes);

// Gives a prepared transaction its place in the order of commits. From the binary log's group leader.
//
// # Safety
// `session` must be live and no other thread may use it meanwhile.
void perdura_commit_ordered(const struct PerduraSession *session);

// Commits: durable and visible on return. On failure the transaction is rolled back.
//
// # Safety
// As for [`perdura_statement_begin`].
enum PerduraCode perdura_commit(const struct PerduraSession *session);

// Rolls the transaction back.
//
// # Errors
// NotSupported after [`perdura_commit_ordered`]: the commit is durable.
//
// # Safety
// As for [`perdura_statement_begin`].
enum PerduraCode perdura_rollback(const struct PerduraSession *session);

// Sets a savepoint; `id` gets its name. Savepoints end with the transaction.
//
// # Safety
// As for [`perdura_statement_begin`]; `id` must be writable.
enum PerduraCode perdura_savepoint(const struct PerduraSession *session, uint64_t *id);

// Takes back what was written since a savepoint; it stays, those after it go.
//
// # Errors
// NotFound if this transaction has no such savepoint; nothing is taken back.
//
// # Safety
// As for [`perdura_statement_begin`].
enum PerduraCode perdura_rollback_to_savepoint(const struct PerduraSession *session, uint64_t id);

// Releases a savepoint, and no other: the server releases one that is set again although later ones stay. What is kept of it goes
// with the transaction.
//
// # Errors
// NotFound if this transaction has no such savepoint.
//
// # Safety
// As for [`perdura_statement_begin`].
enum PerduraCode perdura_release_savepoint(const struct PerduraSession *session,
                                           uint64_t id);

// Reads the counters.
//
// # Safety
// `engine` must be open, `target` writable.
void perdura_counters(const struct PerduraEngine *engine, struct PerduraCounters *target);

// Makes the report of SHOW ENGINE PERDURA STATUS.
//
// # Safety
// `engine` must be open.
struct PerduraReport *perdura_report(const struct PerduraEngine *engine);

// What one should know about the medium, as a line for the error log.
//
// # Safety
// `engine` must be open.
struct PerduraReport *perdura_medium_report(const struct PerduraEngine *engine);

// Sets who is told of what no statement can report, in UTF-8 and not ended: `notice` is called on whatever thread notices, and at
// once for what was noticed before.
//
// # Safety
// `engine` must be open, `notice` callable on any thread with that many bytes, as long as the pool is open.
void perdura_set_notice_handler(const struct PerduraEngine *engine,
                                void (*notice)(const uint8_t*, size_t));

// The report's bytes, in UTF-8, and their number in `bytes`. Null and 0 for no report.
//
// # Safety
// `report` must be null or made and not released, `bytes` writable.
const uint8_t *perdura_report_text(const struct PerduraReport *report, size_t *bytes);

// Releases a report.
//
// # Safety
// `report` must be null or made, and nobody may use it any more.
void perdura_report_release(struct PerduraReport *report);

// Opens a table for a handler. `path` is the server's path of the table.
//
// # Errors
// NotFound; DefinitionChanged if the pool has another definition of it than the server.
//
// # Safety
// `engine` must be open, `path` a C string, the definition valid, `cursor` writable.
enum PerduraCode perdura_cursor_open(const struct PerduraEngine *engine,
                                     const char *path,
                                     const struct PerduraDefinition *definition,
                                     struct PerduraCursor **cursor);

// Closes it.
//
// # Safety
// `cursor` must be open, and nobody may use it any more.
void perdura_cursor_close(struct PerduraCursor *cursor);

// Prepares for a statement: how rows are locked when read, whether locked ones are left out.
//
// # Safety
// `cursor` must be open and used by this thread alone.
enum PerduraCode perdura_cursor_prepare(struct PerduraCursor *cursor,
                                        enum PerduraLock lock,
                                        bool skip_locked);

// Ends a statement's use of the cursor.
//
// # Safety
// As for [`perdura_cursor_prepare`].
void perdura_cursor_reset(struct PerduraCursor *cursor);

// Sets which columns reads fill in, by a bitmap with one bit a column, or all if `columns` is null.
//
// # Safety
// As for [`perdura_cursor_prepare`]; `columns` must have a bit for each column.
void perdura_cursor_set_columns(struct PerduraCursor *cursor, const uint8_t *columns);

// Sets whether the caller claims the rows of a walk that it is going to use ([`perdura_claim`]), so that no other row is locked.
//
// # Safety
// As for [`perdura_cursor_prepare`].
void perdura_cursor_claims(struct PerduraCursor *cursor,
                           bool claims);

// Locks the row read last, which the caller is going to use; nothing to do if it is locked. End if the row is not to be used as
// it was read: the walk's next row is the same one as it is now, locked, unless it is gone or locked rows are left out. If the
// transaction has a snapshot that next row comes with RecordChanged: a conflict, if the caller would use it as it is now.
//
// # Errors
// LockWaitTimeout, Deadlock, Killed.
//
// # Safety
// As for [`perdura_insert`].
enum PerduraCode perdura_claim(struct PerduraCursor *cursor,
                               const struct PerduraSession *session);

// Inserts a record.
//
// # Safety
// Cursor and session must be live and used by this thread alone; `record` must be a record of the table.
enum PerduraCode perdura_insert(struct PerduraCursor *cursor,
                                const struct PerduraSession *session,
                                const uint8_t *record);

// Replaces the row read last.
//
// # Safety
// As for [`perdura_insert`].
enum PerduraCode perdura_update(struct PerduraCursor *cursor,
                                const struct PerduraSession *session,
                                const uint8_t *record);

// Deletes the row read last.
//
// # Safety
// As for [`perdura_insert`].
enum PerduraCode perdura_delete(struct PerduraCursor *cursor, const struct PerduraSession *session);

// Begins a walk over the table.
//
// # Safety
// As for [`perdura_insert`].
enum PerduraCode perdura_scan_begin(struct PerduraCursor *cursor,
                                    const struct PerduraSession *session);

// Begins a walk to find a row that is to be changed as the primary changed it (replication). It goes over all that has its place in
// the order of commits, not over a snapshot; the row is locked when it is changed, which fails with RecordChanged if it is not the
// one that was read any more. The transaction must be READ COMMITTED.
//
// # Safety
// As for [`perdura_insert`].
enum PerduraCode perdura_search_begin(struct PerduraCursor *cursor,
                                      const struct PerduraSession *session);

// Begins the search again if more was committed since it began; End if not.
//
// # Safety
// As for [`perdura_insert`].
enum PerduraCode perdura_search_again(struct PerduraCursor *cursor,
                                      const struct PerduraSession *session);

// The walk's next row, or End. Blobs are valid until the statement ends.
//
// # Safety
// As for [`perdura_insert`].
enum PerduraCode perdura_scan_next(struct PerduraCursor *cursor,
                                   const struct PerduraSession *session,
                                   uint8_t *record);

// Ends the walk.
//
// # Safety
// As for [`perdura_cursor_prepare`].
void perdura_scan_end(struct PerduraCursor *cursor);

// The name of the row read or inserted last, for [`perdura_read`]; 0 before any.
//
// # Safety
// As for [`perdura_cursor_prepare`].
uint64_t perdura_position(const struct PerduraCursor *cursor);

// Reads the row named `row`, or End if it is gone.
//
// # Safety
// As for [`perdura_insert`].
enum PerduraCode perdura_read(struct PerduraCursor *cursor,
                              const struct PerduraSession *session,
                              uint64_t row,
                              uint8_t *record);

// Gives back the lock that the last read newly took.
//
// # Safety
// As for [`perdura_insert`].
void perdura_unlock(struct PerduraCursor *cursor, const struct PerduraSession *session);

// Sizes of the cursor's table.
//
// # Safety
// As for [`perdura_cursor_prepare`]; `info` must be writable.
void perdura_table_info(const struct PerduraCursor *cursor, struct PerduraTableInfo *info);

// Calls `found` with the name of each prepared transaction.
//
// # Safety
// `engine` must be open, `found` callable with `context` and as many bytes as it is told.
enum PerduraCode perdura_prepared_list(const struct PerduraEngine *engine,
                                       void (*found)(void*, const uint8_t*, size_t),
                                       void *context);

// Commits or rolls back a prepared transaction by name, or NotFound.
//
// # Safety
// `engine` must be open, `xid` readable for `bytes` bytes.
enum PerduraCode perdura_prepared_decide(const struct PerduraEngine *engine,
                                         const uint8_t *xid,
                                         size_t bytes,
                                         bool commit);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PERDURA_H */
