/* perdura_rows.h: cursors, and the rows and keys read and changed through them.
   A part of perdura_server.h, which states the conventions. */

#ifndef PERDURA_ROWS_H
#define PERDURA_ROWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perdura_session.h"

#ifdef __cplusplus
extern "C" {
#endif

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

// Sets whether the caller locks the rows that it uses (perdura_lock_semi_consistent). A scan then locks no
// row by itself.
void perdura_cursor_semi_consistent(PerduraCursor *cursor, bool is_semi_consistent);

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

// Estimate of the committed rows of the cursor's table, and of those that the session's transaction has
// inserted; `session` may be null.
uint64_t perdura_table_rows(const PerduraCursor *cursor, const PerduraSession *session);
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

// Locks the row at a position exclusively and reads its newest version, whatever the statement otherwise
// reads. END if it is gone.
//
// Errors: RECORD_CHANGED, LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
PerduraCode perdura_read_locked(PerduraCursor *cursor, const PerduraSession *session, uint64_t row,
    uint8_t *record);

// Locks the row read last, which the caller is going to use. Does nothing if it is locked.
//
// END if the row is not to be used as it was read. If it has changed, the scan's next row is the same row
// again, as it is now and locked; it is left out if it is gone. If the statement skips locked rows and this
// is one, the scan goes on past it. If the transaction has a snapshot, the changed row comes with
// RECORD_CHANGED: that is a conflict only if the caller would use the row as it is now.
//
// Errors: LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
PerduraCode perdura_lock_semi_consistent(PerduraCursor *cursor, const PerduraSession *session);

// Locks the row read last, which the caller uses and leaves as it is: whoever has used it is certain that
// nobody changes it before the transaction ends. Does nothing if it is locked.
//
// Errors: RECORD_CHANGED, LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
PerduraCode perdura_keep(PerduraCursor *cursor, const PerduraSession *session);

// Releases the lock on the row read last, if that read or its semi-consistent lock took it. For rows that the
// statement turns out not to use.
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
  // As `NextSame`, where the caller searches for one whole key after the other, from greater ones to smaller
  // ones.
  PERDURA_STEP_NEXT_SAME_DESCENDING,
} PerduraStep;

// Begins to read the index of this number. Reads see what the transaction wrote before. Under SERIALIZABLE
// this locks the table first. `locks` is set to whether reads lock the rows. If they do, the caller compares
// the key of each row that it gets with perdura_index_key; if they differ it calls perdura_index_pass, or
// asks perdura_index_moved. Rows to be locked are found at the statement's snapshot, those of a whole key
// that does not repeat, and all with `newest`, among the newest.
//
// Errors: LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
PerduraCode perdura_index_begin(PerduraCursor *cursor, const PerduraSession *session, uint32_t index,
    bool newest, bool *locks);

// Finds the first row whose key is at `bound` or behind it in the direction of `step`, and reads it into
// `record`. A step to the same key finds only rows whose keys begin with the bound's bytes. `whole` says that
// these are a whole key which does not repeat. With `stops`, this and the steps that follow stop at the entry
// and fill in no record; reads must not lock then. With an `end`, this and the steps to the next row find
// only those up to there: to keys that begin with its bytes, or with an excluded one to those below them;
// `step` must be the one to the next row then, and reads must not lock. END if there is no such row.
//
// Errors: LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED; RECORD_CHANGED as for perdura_scan_next, with the record
// filled in.
PerduraCode perdura_index_seek(PerduraCursor *cursor, const PerduraSession *session, PerduraBound bound,
    PerduraBound end, PerduraStep step, bool whole, bool stops, uint8_t *record);

// Goes on to another row, and reads it into `record`. END if there is none.
//
// Errors: those of perdura_index_seek.
PerduraCode perdura_index_step(PerduraCursor *cursor, const PerduraSession *session, PerduraStep step,
    uint8_t *record);

// Releases the row read last, which the caller does not use, and goes on as the last seek or step did.
//
// Errors: those of perdura_index_seek.
PerduraCode perdura_index_pass(PerduraCursor *cursor, const PerduraSession *session, uint8_t *record);

// Whether the caller uses the row read last, which is locked and whose key is no longer that of its entry but
// `key`. If not, it calls perdura_index_pass; a row that has moved on in the direction of the walk is then
// met again at its new entry. A walk offers each row once. Only for a caller that checks its whole condition
// on each row; the walk must not have been begun with `newest`.
bool perdura_index_moved(PerduraCursor *cursor, const PerduraSession *session, const uint8_t *key,
    size_t length);

// Begins another walk through the index, which offers each row again. A search from an end of the index does
// so too.
void perdura_index_rewind(PerduraCursor *cursor);

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

// The values that a session counts by: those that are `offset` and a multiple of `increment`, as the server
// reckons.
typedef struct PerduraCounting {
  // Where counting begins. Of no effect if it is above the increment.
  uint64_t offset;
  // From a value to the next one; at least 1.
  uint64_t increment;
} PerduraCounting;

// Sets the next value that the table's counter gives out. `session` is that of the statement; null where
// there is none.
PerduraCode perdura_counter_set(const PerduraEngine *engine, const PerduraSession *session,
    PerduraCursor *cursor, uint64_t next);

// The next value of the table's counter.
PerduraCode perdura_counter_next(const PerduraEngine *engine, PerduraCursor *cursor, uint64_t *next);

// Reserves values of the table's counter, durably: nobody gets them again, not even after a crash. They are
// the next `wanted` ones by `counting`, of which those above `max` are of no use. `count` is 0 if the first
// one is. A statement in the midst of its rows goes on at `from`, unless others have got values meanwhile; 0
// if it is not. `session` is that of the statement, which waits while the pool is held, as for a write.
//
// Errors: KILLED if the statement is killed while the pool is held; otherwise as for `perdura_insert`.
PerduraCode perdura_counter_reserve(const PerduraEngine *engine, const PerduraSession *session,
    PerduraCursor *cursor, PerduraCounting counting, uint64_t wanted, uint64_t from, uint64_t max,
    uint64_t *first, uint64_t *count);

// Notes that a row has `value`, after which the table's counter goes on by `counting`, if it is not beyond
// already. Durably. `inserts` says that the statement inserts the row; otherwise it has changed one.
// `session` is as for `perdura_counter_reserve`.
PerduraCode perdura_counter_pass(const PerduraEngine *engine, const PerduraSession *session,
    PerduraCursor *cursor, PerduraCounting counting, uint64_t value, bool inserts);

// Finds the value with which a counter is to be compared, when its table is first opened since the pool was.
// Copies to `key` the key in the index of this number that is nearest to the keys that begin with `bound`, or
// one of these: with `descends` the least that is not below them, else the greatest that is not above.
// Whoever has inserted it, decided or not. END if the counter was compared already. Of no such key, `length`
// is 0. The caller then calls perdura_counter_catch_up.
//
// Errors: DAMAGED.
PerduraCode perdura_counter_check(const PerduraEngine *engine, PerduraCursor *cursor, uint32_t index,
    const uint8_t *bound, size_t bound_length, bool descends, uint8_t *key, size_t *length);

// Has the table's counter go on above `value`, the greatest that rows have, 0 for none; perdura_counter_check
// finds it no more. `from` is set to what the counter was at, `to` to what it is at. Stores nothing: that is
// for perdura_counter_keep.
PerduraCode perdura_counter_catch_up(const PerduraEngine *engine, PerduraCursor *cursor, uint64_t value,
    uint64_t *from, uint64_t *to);

// Stores the limit of a counter that perdura_counter_catch_up has moved, for a statement that is about to
// write the table: it may delete the row by which the value was found. Once OK, it is so for all statements
// as long as the pool is open; END if the next one has to call again, as the pool has no room for the limit,
// or the counter is not compared with the rows.
//
// Errors: KILLED if the statement is killed while the pool is held.
PerduraCode perdura_counter_keep(const PerduraEngine *engine, const PerduraSession *session,
    PerduraCursor *cursor);

/* -- SEQUENCE objects: tables of one row, changed in transactions of their own */

// Reads the table's one row into `record`, as it was committed last. END if there is none.
PerduraCode perdura_sequence_read(PerduraCursor *cursor, uint8_t *record);

// Replaces the table's one row by `record`, or inserts it if there is none, in a transaction of its own:
// durable and visible on return. No other call may change the table meanwhile.
//
// Errors: LOG_FULL, DEVICE_FULL, TABLE_FULL, READ_ONLY_POOL; LOCK_WAIT_TIMEOUT while maintenance moves the
// row. The row is as it was.
PerduraCode perdura_sequence_write(PerduraCursor *cursor, const uint8_t *record);

/* -- Foreign keys: rows looked up without a cursor */

// A table in which rows are looked up for foreign keys, without a cursor.
typedef struct PerduraReference PerduraReference;

// Keys that are looked up in an index.
typedef struct PerduraReferenceKey {
  // Number of the index.
  uint32_t index;
  // The beginning of the keys.
  const uint8_t *start;
  // Length of that.
  uint32_t length;
  // The beginning is a whole key.
  bool is_whole;
} PerduraReferenceKey;

// Prepares look-ups in a table. Release it with perdura_reference_close.
//
// Errors: NOT_FOUND, and those of opening a table.
PerduraCode perdura_reference_open(const PerduraEngine *engine, const char *path,
    PerduraReference **reference);

// Finds a row with such a key, other than the one at position `except`, which is 0 for none; the newest at
// every isolation level. Locks it shared until the transaction ends. Waits for transactions that insert,
// delete or re-key such a row. END if there is none.
//
// Errors: LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
PerduraCode perdura_reference_lock(PerduraReference *reference, const PerduraSession *session,
    PerduraReferenceKey key, uint64_t except);

// Whether there is a row with such a key: OK, or END if there is not. Looks at the newest rows, and waits for
// transactions that insert, delete or re-key such a row. The caller has the row that they refer to locked.
//
// Errors: LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
PerduraCode perdura_reference_exists(PerduraReference *reference, const PerduraSession *session,
    PerduraReferenceKey key);

// Rows with one key, locked some at a time.
typedef struct PerduraReferring PerduraReferring;

// Begins to lock the rows with such a key: OK, or END without any effect if there are none. Waits for
// transactions that insert, delete or re-key such a row. The caller has the row that they refer to locked, so
// there come no others. End it with perdura_referring_end.
//
// Errors: LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
PerduraCode perdura_referring_begin(PerduraReference *reference, const PerduraSession *session,
    PerduraReferenceKey key, PerduraReferring **referring);

// Locks the next rows exclusively, until the transaction ends, and calls `visit` with the position of each;
// END if there are no more. The caller reads each by perdura_read_locked, and finds it gone or with another
// key if that has happened before it was locked. It may change them before it asks for others.
//
// Errors: LOCK_WAIT_TIMEOUT, DEADLOCK, KILLED.
PerduraCode perdura_referring_next(PerduraReferring *referring, const PerduraSession *session,
    void (*visit)(void *context, uint64_t row), void *context);

// Ends the look at rows with one key.
void perdura_referring_end(PerduraReferring *referring);

// Ends look-ups in a table.
void perdura_reference_close(PerduraReference *reference);

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

#ifdef __cplusplus
}
#endif

#endif
