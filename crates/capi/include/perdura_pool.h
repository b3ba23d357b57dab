/* perdura_pool.h: outcomes, pools, and the tables in them.
   A part of perdura_server.h, which states the conventions. */

#ifndef PERDURA_POOL_H
#define PERDURA_POOL_H

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

// No index.
#define PERDURA_NO_INDEX UINT32_MAX

// Number of the index that the message of the calling thread's last failure is about; PERDURA_NO_INDEX if it
// is about none.
uint32_t perdura_message_index(void);

/* -- Pools */

// An open pool.
typedef struct PerduraEngine PerduraEngine;

// Where a pool is and how it runs.
typedef struct PerduraOptions {
  // The pool's directory, as a path.
  const char *directory;
  // The directory of the log, as a path, if it is another: on persistent memory, say, with the data on a
  // disk. NULL and an empty text: the pool's.
  const char *log_directory;
  // Makes the directory if it is missing, and that of the log.
  bool create_directory;
  // Takes a directory that is not on DAX as if it were: data then survive a crash of the process, not a loss
  // of power. Of a pool with another directory for its log that one is meant. Without it the pool is durable
  // there by syncs, as on any disk.
  bool emulate;
  // Refuses a directory that is not on DAX.
  bool require_dax;
  // On a disk: bytes that the journal of fences may take in the directory.
  uint64_t journal_bytes;
  // On a disk: bytes of log after which a checkpoint is made.
  uint64_t checkpoint_log_bytes;
  // On a disk: time after which a checkpoint is made, in milliseconds.
  uint64_t checkpoint_interval_ms;
  // Opens a pool although its device has counted dirty shutdowns since it was last open.
  bool accept_dirty_shutdown;
  // The medium whose time emulated memory takes: a preset's name, with `@NODE` for a device of that NUMA
  // node. NULL, an empty text and `off`: none.
  const char *emulate_model;
  // Faults files in ahead of their use.
  bool prefault;
  // Threads that fault files in.
  uint32_t prefault_threads;
  // Opens the pool only once its log, and the tables that its recovery has opened, are faulted in.
  bool prefault_wait;
  // Pins threads that work on the pool to the NUMA node of its memory, where the machine has several and that
  // one is known.
  bool numa;
  // Size of a table's data files once the table has grown.
  uint64_t data_file_size;
  // Data files of open tables beyond which idle tables are closed.
  uint32_t open_files;
  // Bytes of data files of dropped tables that are kept for the next files.
  uint64_t kept_file_bytes;
  // Lanes of a log generation. Counts when the pool is created.
  uint32_t log_lanes;
  // Size of a lane. Counts when the pool is created.
  uint64_t log_lane_size;
  // Log generations to begin with, and to which the log shrinks back.
  uint32_t log_generations;
  // Log generations that the log may grow to.
  uint32_t log_generations_max;
  // The way of records to the medium, by its name. NULL and an empty text: the direct one.
  const char *log_path;
  // Bytes of the log buffer, for the ways that have one.
  uint64_t log_buffer_size;
  // Granularity of the log's write-ahead in bytes, 0 for that of the way.
  uint32_t log_write_ahead_size;
  // How long a transaction waits for a row lock if no statement has said it, in milliseconds.
  uint64_t lock_wait_ms;
  // DRAM that a transaction's write set may take before its words are spilled to the medium, in bytes.
  uint64_t transaction_memory;
} PerduraOptions;

// Whether a directory, a path, holds files of a pool, complete or not.
bool perdura_has_pool(const char *directory);

// Opens the pool in a directory, recovering it after a crash. Creates the pool if the directory is empty.
//
// Errors: MEDIUM, NOT_SUPPORTED (the model), CONFIGURATION, DAMAGED, DEVICE_FULL.
PerduraCode perdura_open(const PerduraOptions *options, PerduraEngine **engine);

// Closes a pool whose sessions have ended and whose cursors are closed. Prepared transactions stay prepared.
void perdura_close(PerduraEngine *engine);

// Sets how many bytes of data files of dropped tables are kept for the next files. Those that are too many
// are removed in the background.
void perdura_set_kept_file_bytes(const PerduraEngine *engine, uint64_t bytes);
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

// A foreign key. Its texts are in UTF-8, but paths in the server's file name encoding.
typedef struct PerduraForeignKey {
  // Its name; empty if it has a number.
  const char *name;
  // Of a key without a name of its own, which is named after its table and this number; 0 of others.
  uint32_t number;
  // Path of the table that has it, the child, of which database and table count. Null in a definition.
  const char *child;
  // Path of the table that it refers to, which need not exist.
  const char *parent;
  // The columns of the child.
  const char *const *columns;
  // The columns of the parent.
  const char *const *parent_columns;
  // Number of columns.
  size_t column_count;
  // The server's number of what becomes of the row when the parent's is deleted.
  uint8_t on_delete;
  // The server's number of what becomes of the row when the parent's key changes.
  uint8_t on_update;
  // The table is a copy that the server fills, and its rows hold to the key already. The rename that puts the
  // copy in place ends that.
  bool is_carried;
} PerduraForeignKey;

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
  // The foreign keys.
  const PerduraForeignKey *foreign_keys;
  // Number of foreign keys.
  size_t foreign_key_count;
  // Of a copy that is filled under a name of the server's own: path of the table whose place it takes. Null
  // for others.
  const char *copy_of;
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
// another's place refuses the snapshots taken before. Foreign keys that name the table, or the one whose
// place it takes, name it by its new name in the same commit, unless that is the server's own.
//
// Errors: NOT_FOUND, EXISTS.
PerduraCode perdura_table_rename(const PerduraEngine *engine, const char *from, const char *to);

// Whether the pool has the table.
bool perdura_table_exists(const PerduraEngine *engine, const char *path);

// Whether the pool's definition of the table has this id.
bool perdura_table_has_version(const PerduraEngine *engine, const char *path, const uint8_t *version,
    size_t bytes);

/* -- Foreign keys of tables */

// Foreign keys that belong to a table in some way.
typedef enum PerduraKeysOf {
  // Those that the table has itself.
  PERDURA_KEYS_OF_CHILD = 0,
  // Those by which tables refer to it.
  PERDURA_KEYS_OF_PARENT,
  // Those of all tables of its database.
  PERDURA_KEYS_OF_DATABASE,
} PerduraKeysOf;

// Calls `visit` with each of a table's foreign keys, in no particular order. What it gets is valid during the
// call.
PerduraCode perdura_foreign_keys(const PerduraEngine *engine, const char *path, PerduraKeysOf of,
    void (*visit)(void *context, const PerduraForeignKey *key), void *context);

// A number that grows whenever foreign keys change, or a table that has some or is referred to by some.
uint64_t perdura_foreign_keys_version(const PerduraEngine *engine);

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

// Removes the server's copies of definitions (`.frm` files in `directory`, the server's data directory) that
// a crash has left torn: the server would refuse to open such a table, and to drop it would leave it here.
// The server makes another copy when it opens the table. Calls `removed` with the name of each table. To be
// called before the server recovers its DDL.
PerduraCode perdura_remove_torn_definitions(const PerduraEngine *engine, const char *directory,
    void (*removed)(const char *table));

// Drops all tables of the database whose directory has this path, also those that the server does not know:
// parts of partitioned tables whose definition, which the server alone keeps, was lost with the directory.
PerduraCode perdura_drop_database(const PerduraEngine *engine, const char *path);

// Drops the tables that the server's own DDL left under names of its own (`#sql...`) when a crash interrupted
// it. To be called after the server has finished or undone that DDL. Calls `kept` with the name of each old
// table of an ALTER that is still there: it stays, for it may be the only copy.
PerduraCode perdura_drop_ddl_garbage(const PerduraEngine *engine, void (*kept)(const char *table));

#ifdef __cplusplus
}
#endif

#endif
