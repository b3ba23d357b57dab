/* perdura_operation.h: checks, ALTER of indexes, backup, and reports for the operator.
   A part of perdura_server.h, which states the conventions. */

#ifndef PERDURA_OPERATION_H
#define PERDURA_OPERATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perdura_rows.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- Checking a table */

// Callbacks of a check.
typedef struct PerduraCheckHooks {
  // Whether to go on, now that `done` of `all` parts of the table are checked. Asked often.
  bool (*goes_on)(void *context, uint64_t done, uint64_t all);
  // Tells of a fault: its row, file and offset, what is wrong there, and the remedy; and the index that it is
  // in, or `PERDURA_NO_INDEX`.
  void (*fault)(void *context, const uint8_t *text, size_t bytes, uint32_t index);
  // Makes the key that the row in the record has in the index of this number. False if nobody can tell.
  bool (*key)(void *context, uint32_t index, PerduraKey *key);
  // Passed to all functions.
  void *context;
} PerduraCheckHooks;

// Checks the cursor's table as it is committed now, while others read and change it: descriptors, directory
// words and rows with their checksums, or with `quick` the rows' headers instead. It stores nothing, marks
// nothing and locks no row. After a hundred faults it ends.
//
// Errors: DAMAGED if there were faults, which were reported to the caller; KILLED if the caller did not let
// it go on.
PerduraCode perdura_table_check(PerduraCursor *cursor, const PerduraSession *session, bool quick,
    uint8_t *record, PerduraCheckHooks hooks);

/* -- Adding and dropping indexes */

// Callbacks of the building of indexes.
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

// A column that gets another name.
typedef struct PerduraRenamedColumn {
  // Its name so far.
  const char *before;
  // Its name from now on.
  const char *after;
} PerduraRenamedColumn;

// Puts an alteration into force, durably, with the definition that the server has from now on; and ends it.
// Foreign keys of other tables that name one of the `renamed_count` columns `renamed` follow in the same
// commit. Snapshots from before cannot read the table if it has new indexes. Other cursors on the table must
// be closed.
//
// Errors: NOT_FOUND, LOCK_WAIT_TIMEOUT, DEVICE_FULL, READ_ONLY_POOL: the table is as it was.
PerduraCode perdura_alter_commit(const PerduraEngine *engine, PerduraCursor *cursor,
    PerduraAlteration *alteration, const PerduraDefinition *definition, const PerduraRenamedColumn *renamed,
    size_t renamed_count);

// Ends an alteration that is not to be. The table is as it was.
void perdura_alter_end(PerduraCursor *cursor, PerduraAlteration *alteration);

/* -- Backup */

// Asks for a hold of the pool, so that its files can be copied, and sets `hold` to its number, which is not
// 0. From now on everybody who is about to store to the pool waits. It is held once perdura_hold_wait has
// returned OK. Until perdura_release with the number the hold is there, waiting or not.
//
// Errors: EXISTS if there is a hold already.
PerduraCode perdura_hold_begin(const PerduraEngine *engine, uint64_t *hold);

// Waits until the statements that wrote when the hold was asked for have ended.
//
// Errors: LOCK_WAIT_TIMEOUT if some are still running after `timeout_ms` milliseconds: the caller releases
// the hold, or waits once more. KILLED if the hold was released meanwhile.
PerduraCode perdura_hold_wait(const PerduraEngine *engine, uint64_t hold, uint64_t timeout_ms);

// Releases the hold of this number, waiting or not, and no other one: the pool takes changes again. False if
// it was not there any more.
bool perdura_release(const PerduraEngine *engine, uint64_t hold);

// Number of the hold that is there, waiting or not, whoever has asked for it; 0 if there is none.
uint64_t perdura_present_hold(const PerduraEngine *engine);

/* -- Status */

// A status variable: a counter since the pool was opened, or a gauge of what is now.
typedef struct PerduraCounter {
  // Its name, without the `Perdura_` in front.
  const char *name;
  // Its value.
  uint64_t value;
} PerduraCounter;

// Reads all counters, as many as there is room for, always in the same order. Returns how many there are.
// Without a pool their values are 0.
size_t perdura_counters(const PerduraEngine *engine, PerduraCounter *target, size_t room);

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

// Kinds of values of a column in a row.
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
  // Kind of the value.
  PerduraValueKind kind;
  // The number or the milliseconds; else 0.
  uint64_t number;
  // The text; else null.
  const uint8_t *text;
  // Length of the text.
  size_t bytes;
} PerduraValue;

// Lists of perdura_list, and the values of a row. An unknown value is NULL. A session has the number that the
// status report gives it, a row that of its RID in hexadecimal.
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
