/* perdura_map.h: ordered maps of byte strings with versions, in persistent memory.

   A directory holds maps; a map holds keys, and of each key the values it had at different timestamps. A
   change is visible once its call returns, and durable once persisted. A crash leaves all changes up to
   some persist, and none after it. A program without replication uses perdura_map_put and _remove
   and need not care for timestamps; a replicated one passes the index of its log as timestamp to
   perdura_map_set and _delete, and applies, rolls back and forgets. examples/map.c shows the use,
   through a crash.

   Made from crates/capi (src/map and headers/perdura_map.h.in); to make it anew:
   PERDURA_BLESS=1 cargo test -p perdura-capi --test header
   Link with libperdura_capi.a, what `pkg-config --libs libpmem2` says, and -lpthread -ldl -lm.

   CONVENTIONS

   Outcomes. A call that can fail returns a PerduraMapCode. PERDURA_MAP_CODE_OK, _END, _ABSENT and
   _DIFFERS are no failures, all others are. Below, codes go without their prefix. "Errors" names the
   failures that belong to the call. Besides those, any call may return ARGUMENT, DAMAGED, MEDIUM or
   INTERNAL. A failed change has changed nothing, except that perdura_map_rollback and perdura_map_forget
   may stop at FULL after a part, in whole timestamps. A failed call stores no result.

   Messages. A failed call leaves a message with its thread, for a person: what failed, where, and what
   to do. The thread's next failure replaces it. perdura_map_message copies it.

   Strings and bytes. A `const char *` is a string that ends with a zero byte. Keys and values are any
   bytes, with a length, and may be empty. Lengths and sizes are in bytes. Keys are ordered as by memcmp,
   a prefix before what it begins.

   Pointers. Null where it is not allowed, a length beyond the limits and a number out of range are
   answered with ARGUMENT or TOO_LARGE. Any other wrong pointer is undefined behaviour. Arguments are
   used until the call returns, and no longer.

   Ownership. The caller closes or releases, once, what it opened or was given; to release null does
   nothing. Values that are read in place, cursors, snapshots and loaders hold their map open:
   perdura_map_close refuses with BUSY until all are released. Bytes that a call gave out belong to the
   library and are valid as long as the call says.

   Threads. Any number of threads may use a directory and its maps: changes take turns, reads never wait.
   One thread at a time uses a value, cursor, snapshot or loader.

   Callbacks return normally: no exception and no longjmp may leave them.

   Defects. No exception leaves a call. If an internal error shows that the library has a defect, the
   call returns INTERNAL and the map fails stop: it is read, but refuses every further change with
   INTERNAL. */

#ifndef PERDURA_MAP_H
#define PERDURA_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* -- Outcomes and messages */

// Outcome of a call on a map. From NOT_FOUND on, a failure with a message.
typedef enum PerduraMapCode {
  // Done.
  PERDURA_MAP_CODE_OK = 0,
  // There is no further entry or chunk.
  PERDURA_MAP_CODE_END,
  // The key has no value.
  PERDURA_MAP_CODE_ABSENT,
  // The key has another value than the one expected. Nothing has changed.
  PERDURA_MAP_CODE_DIFFERS,
  // There is no such directory or map.
  PERDURA_MAP_CODE_NOT_FOUND,
  // Another map has the name.
  PERDURA_MAP_CODE_EXISTS,
  // An argument is null, out of range, or not a name.
  PERDURA_MAP_CODE_ARGUMENT,
  // The key or the value is longer than a map takes.
  PERDURA_MAP_CODE_TOO_LARGE,
  // The call does not take this timestamp now.
  PERDURA_MAP_CODE_TIMESTAMP,
  // The versions asked for have been forgotten.
  PERDURA_MAP_CODE_FORGOTTEN,
  // The file has no room. Delete, forget and collect.
  PERDURA_MAP_CODE_FULL,
  // The file is not a map.
  PERDURA_MAP_CODE_FOREIGN,
  // The file has another version of the format.
  PERDURA_MAP_CODE_VERSION,
  // Bytes in the file or in a snapshot are not what they must be.
  PERDURA_MAP_CODE_DAMAGED,
  // The map takes no changes now: a snapshot is being loaded, or one that is held stands in the way; or its
  // numbers of persists are used up, and it must be copied to a new file.
  PERDURA_MAP_CODE_READ_ONLY,
  // The system refused access to the files: not DAX, in use by another process, I/O.
  PERDURA_MAP_CODE_MEDIUM,
  // The map is open already, or has values, views, cursors, snapshots or loaders that are not released.
  PERDURA_MAP_CODE_BUSY,
  // A defect. The map takes no more changes.
  PERDURA_MAP_CODE_INTERNAL,
  // The map was emptied for a load that has not ended. Load a snapshot.
  PERDURA_MAP_CODE_PARTIAL,
  // The snapshot held more garbage than its limit.
  PERDURA_MAP_CODE_EXPIRED,
} PerduraMapCode;

// Copies the message of the calling thread's last failure to `target`, cut to `bytes` bytes and ended with a
// zero byte.
void perdura_map_message(char *target, size_t bytes);

/* -- Directories */

// An open directory of maps. A process opens it once, and every map in it through it.
typedef struct PerduraMapDirectory PerduraMapDirectory;

// Opens a directory of maps. With `create` it makes the directory if it is missing. With `emulate` it goes on
// if the directory is not on DAX persistent memory: data then survive a crash of the process, not a loss of
// power.
//
// Errors: NOT_FOUND, MEDIUM.
PerduraMapCode perdura_map_directory_open(const char *path, bool create, bool emulate,
    PerduraMapDirectory **directory);

// Closes a directory. Its maps may stay open.
void perdura_map_directory_close(PerduraMapDirectory *directory);

/* -- Creating and opening maps */

// An open map. Any number of threads may use it.
typedef struct PerduraMap PerduraMap;

// The persistent append-only list with its ordered index in DRAM: the fastest to change.
#define PERDURA_MAP_LIST 1

// The persistent copy-on-write B+-tree: opens at once, however large.
#define PERDURA_MAP_BTREE 2

// How a map is laid out when it is created.
typedef struct PerduraMapLayout {
  // PERDURA_MAP_LIST or PERDURA_MAP_BTREE.
  uint32_t kind;
  // Size of a page: a power of two from 256 to 65,536.
  uint32_t page_bytes;
  // Most children of a node, from 4 to 64.
  uint32_t branching;
  // Size of the file, which does not grow.
  uint64_t bytes;
} PerduraMapLayout;

// Recommends a layout for a map of `kind` in a file of `bytes` bytes.
PerduraMapLayout perdura_map_layout(uint32_t kind, uint64_t bytes);

// How an open map runs.
typedef struct PerduraMapConfig {
  // A batch of this many changes is persisted. 1 makes each change durable before its call returns.
  uint32_t changes_max;
  // A batch is persisted when its first change is about this old, in microseconds.
  uint64_t interval_us;
  // Runs a thread that persists idle batches and collects garbage. Without it the caller does both.
  bool background;
} PerduraMapConfig;

// The default configuration.
PerduraMapConfig perdura_map_config(void);

// Creates an empty map in the new file `name`, and opens it. A name consists of a-z, 0-9, '.' and '_' and
// does not begin with '.'. `config` may be null for the default.
//
// Errors: EXISTS, FULL, MEDIUM.
PerduraMapCode perdura_map_create(const PerduraMapDirectory *directory, const char *name,
    const PerduraMapLayout *layout, const PerduraMapConfig *config, PerduraMap **map);

// Opens the map in file `name`, of either kind, as its newest persist left it. `config` may be null for the
// default.
//
// Errors: NOT_FOUND, BUSY if the process has it open already, FOREIGN, VERSION, DAMAGED, MEDIUM.
PerduraMapCode perdura_map_open(const PerduraMapDirectory *directory, const char *name,
    const PerduraMapConfig *config, PerduraMap **map);

/* -- Writing */

// Sets the value of `key` at the next timestamp, applies it, and forgets the version that it replaces: for
// programs without replication. `ts` gets the timestamp; it may be null.
//
// Errors: as for perdura_map_set.
PerduraMapCode perdura_map_put(const PerduraMap *map, const void *key, size_t key_bytes, const void *value,
    size_t value_bytes, uint64_t *ts);

// Deletes `key` in the manner of perdura_map_put. ABSENT if it has no value.
//
// Errors: as for perdura_map_set.
PerduraMapCode perdura_map_remove(const PerduraMap *map, const void *key, size_t key_bytes);

// Sets the value of `key` at timestamp `ts`. A second change of a key at one timestamp replaces the first.
//
// Errors: TIMESTAMP if `ts` is below the newest change's or not above the applied one, TOO_LARGE, FULL,
// READ_ONLY.
PerduraMapCode perdura_map_set(const PerduraMap *map, uint64_t ts, const void *key, size_t key_bytes,
    const void *value, size_t value_bytes);

// Deletes `key` at timestamp `ts`. ABSENT if it has no value; nothing has changed then.
//
// Errors: as for perdura_map_set.
PerduraMapCode perdura_map_delete(const PerduraMap *map, uint64_t ts, const void *key, size_t key_bytes);

// A string of bytes.
typedef struct PerduraMapBytes {
  // The bytes. May be null if there are none.
  const void *data;
  // Number of the bytes.
  size_t bytes;
} PerduraMapBytes;

// Changes `key` from `expected` to `desired` at timestamp `ts`. DIFFERS if its newest version, persisted or
// not, is not `expected`. If `expected` is null the key must have no value; if `desired` is null it is
// deleted.
//
// `rests_on` gets the timestamp of the change that the answer rests on, which may be rolled back until it is
// applied: `ts` if the key was changed, otherwise that of the version compared with, or 0 if there is none.
// It may be null.
//
// Errors: as for perdura_map_set.
PerduraMapCode perdura_map_compare_and_set(const PerduraMap *map, uint64_t ts, const void *key,
    size_t key_bytes, const PerduraMapBytes *expected, const PerduraMapBytes *desired, uint64_t *rests_on);

// One change of a batch.
typedef struct PerduraMapChange {
  // The key.
  PerduraMapBytes key;
  // Whether the key is deleted. Deleting a key without a value changes nothing.
  bool deletes;
  // The new value. Ignored if the key is deleted.
  PerduraMapBytes value;
} PerduraMapChange;

// Makes several changes at timestamp `ts` and gives it a tag: all of that or, also after a crash, nothing.
// Without changes it raises the newest timestamp to `ts`. The tag is durable and rolled back with its
// timestamp, and listed by perdura_map_mutations.
//
// Errors: as for perdura_map_set; TOO_LARGE also for a tag of more than 1,024 bytes.
PerduraMapCode perdura_map_batch(const PerduraMap *map, uint64_t ts, const void *tag, size_t tag_bytes,
    const PerduraMapChange *changes, size_t count);

// Copies the newest tag that is forgotten to `buffer`, cut to `buffer_bytes` bytes. `tag_bytes` gets its
// whole length, `ts` its timestamp, which may be null. ABSENT if no tag was forgotten.
PerduraMapCode perdura_map_forgotten_tag(const PerduraMap *map, uint64_t *ts, void *buffer,
    size_t buffer_bytes, size_t *tag_bytes);

// Replaces the map's meta blob, at most 1,024 bytes of the program's own. It is durable with the next
// persist; rollbacks and loads leave it as it is.
//
// Errors: TOO_LARGE.
PerduraMapCode perdura_map_set_meta(const PerduraMap *map, const void *meta, size_t meta_bytes);

// Copies the map's meta blob to `buffer`, cut to `buffer_bytes` bytes. `meta_bytes` gets its whole length.
PerduraMapCode perdura_map_meta(const PerduraMap *map, void *buffer, size_t buffer_bytes, size_t *meta_bytes);

// Makes all changes so far durable. Takes two fences, none if there are no changes.
PerduraMapCode perdura_map_persist(const PerduraMap *map);

/* -- Reading */

// The timestamp at which a read sees the newest version of each key, persisted or not, applied or not.
#define PERDURA_MAP_NEWEST UINT64_MAX

// Keeps a value in its place.
typedef struct PerduraMapHold PerduraMapHold;

// A value where it lies in the file. It is valid until released, whatever happens to the key meanwhile. It
// holds off the reuse of the memory that it lies in, so release it soon.
typedef struct PerduraMapValue {
  // The bytes. Not to be written to.
  const void *data;
  // Number of the bytes.
  size_t bytes;
  // Belongs to the library. Null if there is nothing to release.
  PerduraMapHold *hold;
} PerduraMapValue;

// Gets the value of `key` at timestamp `at`, without a copy. Release it with perdura_map_value_release.
// ABSENT if the key has no value. Unless the outcome is OK, `value` is empty and needs no release.
//
// Errors: FORGOTTEN, TOO_LARGE.
PerduraMapCode perdura_map_get(const PerduraMap *map, const void *key, size_t key_bytes, uint64_t at,
    PerduraMapValue *value);

// Releases a value and empties it. Does nothing with an empty one.
void perdura_map_value_release(PerduraMapValue *value);

// Copies the value of `key` at timestamp `at` to `buffer`, cut to `buffer_bytes` bytes. `value_bytes` gets
// the length of the whole value. ABSENT if the key has no value.
//
// Errors: FORGOTTEN, TOO_LARGE.
PerduraMapCode perdura_map_read(const PerduraMap *map, const void *key, size_t key_bytes, uint64_t at,
    void *buffer, size_t buffer_bytes, size_t *value_bytes);

// Holds what a timestamp shows.
typedef struct PerduraMapView PerduraMapView;

// Begins a view of timestamp `at`: nothing that it shows is forgotten until it is released. Release it with
// perdura_map_view_release.
//
// Errors: FORGOTTEN.
PerduraMapCode perdura_map_view(const PerduraMap *map, uint64_t at, PerduraMapView **view);

// Gets the value of `key` in a view, as perdura_map_get does.
//
// Errors: FORGOTTEN if a snapshot was loaded since the view began, TOO_LARGE.
PerduraMapCode perdura_map_view_get(const PerduraMapView *view, const void *key, size_t key_bytes,
    PerduraMapValue *value);

// Ends a view. Does nothing with null.
void perdura_map_view_release(PerduraMapView *view);

/* -- Scans */

// A scan over keys in ascending order, at one timestamp. What is applied does not change under it. Above the
// applied timestamp a change or a rollback made since it began may show or not. It goes on in the content
// that it began in if a snapshot is loaded.
typedef struct PerduraMapCursor PerduraMapCursor;

// One end of a range of keys.
typedef struct PerduraMapBound {
  // The key at the end.
  const void *key;
  // Length of the key.
  size_t key_bytes;
  // Leaves the key itself out of the range.
  bool excluded;
} PerduraMapBound;

// Begins a scan of the keys between `lower` and `upper` that have a value at timestamp `at`. A bound that is
// null does not limit the range. Release the cursor with perdura_map_cursor_release.
//
// Errors: FORGOTTEN, TOO_LARGE.
PerduraMapCode perdura_map_scan(const PerduraMap *map, const PerduraMapBound *lower,
    const PerduraMapBound *upper, uint64_t at, PerduraMapCursor **cursor);

// Begins a scan of the keys that begin with `prefix` and have a value at timestamp `at`.
//
// Errors: FORGOTTEN, TOO_LARGE.
PerduraMapCode perdura_map_prefix(const PerduraMap *map, const void *prefix, size_t prefix_bytes, uint64_t at,
    PerduraMapCursor **cursor);

// perdura_map_scan of what a view shows.
//
// Errors: FORGOTTEN if a snapshot was loaded since the view began, TOO_LARGE.
PerduraMapCode perdura_map_view_scan(const PerduraMapView *view, const PerduraMapBound *lower,
    const PerduraMapBound *upper, PerduraMapCursor **cursor);

// A key and its value where they lie in the file. Valid until the next call on the cursor.
typedef struct PerduraMapEntry {
  // The key. Not to be written to.
  const void *key;
  // Length of the key.
  size_t key_bytes;
  // The value. Not to be written to.
  const void *value;
  // Length of the value.
  size_t value_bytes;
  // The timestamp at which the value was set.
  uint64_t ts;
} PerduraMapEntry;

// Gets the next key and its value. END after the last, and after a failure.
PerduraMapCode perdura_map_cursor_next(PerduraMapCursor *cursor, PerduraMapEntry *entry);

// Ends a scan.
void perdura_map_cursor_release(PerduraMapCursor *cursor);

/* -- Versions: what can be rolled back, and what can be forgotten */

// A map's timestamps.
typedef struct PerduraMapTimestamps {
  // Of the newest change.
  uint64_t last;
  // Of the newest change that cannot be rolled back.
  uint64_t applied;
  // Older versions may be gone up to here; reads below it fail.
  uint64_t forgotten;
  // Of the newest change that is durable.
  uint64_t persisted;
} PerduraMapTimestamps;

// Gets the map's timestamps.
PerduraMapCode perdura_map_timestamps(const PerduraMap *map, PerduraMapTimestamps *timestamps);

// Moves the applied timestamp up to `ts`: changes up to there cannot be rolled back. Durable with the next
// persist.
//
// Errors: TIMESTAMP if `ts` is above the newest change's, READ_ONLY.
PerduraMapCode perdura_map_apply(const PerduraMap *map, uint64_t ts);

// Rolls back every change at timestamp `from` and later, newest first.
//
// Errors: TIMESTAMP if `from` is not above the applied one, READ_ONLY.
PerduraMapCode perdura_map_rollback(const PerduraMap *map, uint64_t from);

// Drops the versions that no read at timestamp `up_to` or later sees. Durable with the next persist.
//
// Errors: TIMESTAMP if `up_to` is above the applied one, READ_ONLY.
PerduraMapCode perdura_map_forget(const PerduraMap *map, uint64_t up_to);

// A change that has not been forgotten. Its bytes are valid until the function that it is passed to returns.
typedef struct PerduraMapMutation {
  // Timestamp of the change.
  uint64_t ts;
  // The key.
  const void *key;
  // Length of the key.
  size_t key_bytes;
  // Whether the change deleted the key.
  bool deleted;
  // The new value. Null if the key was deleted.
  const void *value;
  // Length of the value.
  size_t value_bytes;
  // If not null, this is no change of a key but the tag of the timestamp, which comes before its changes.
  const void *tag;
  // Length of the tag.
  size_t tag_bytes;
} PerduraMapMutation;

// Calls `each` with every change at timestamp `from` and later that has not been forgotten, oldest first,
// until it returns false. It may not use the map.
PerduraMapCode perdura_map_mutations(const PerduraMap *map, uint64_t from,
    bool (*each)(void *context, const PerduraMapMutation *mutation), void *context);

/* -- Snapshots, and loading one into another map */

// Least value of `chunk_bytes_max`.
#define PERDURA_MAP_CHUNK_BYTES_MIN 64

// A map as of one moment. While it is held, no garbage is collected; all else goes on.
typedef struct PerduraMapSnapshot PerduraMapSnapshot;

// Persists the map and takes a snapshot of it, to be read in chunks of at most `chunk_bytes_max` bytes.
// Release it with perdura_map_snapshot_release.
//
// Errors: ARGUMENT if `chunk_bytes_max` is below PERDURA_MAP_CHUNK_BYTES_MIN, READ_ONLY.
PerduraMapCode perdura_map_snapshot(const PerduraMap *map, size_t chunk_bytes_max,
    PerduraMapSnapshot **snapshot);

// perdura_map_snapshot with a limit: once the map has `garbage_bytes_max` bytes of garbage more than at its
// start, the snapshot ends, garbage is collected again, and perdura_map_snapshot_next fails with EXPIRED.
//
// Errors: as for perdura_map_snapshot.
PerduraMapCode perdura_map_snapshot_within(const PerduraMap *map, size_t chunk_bytes_max,
    uint64_t garbage_bytes_max, PerduraMapSnapshot **snapshot);

// Gets the map's timestamps as of the snapshot.
PerduraMapCode perdura_map_snapshot_timestamps(const PerduraMapSnapshot *snapshot,
    PerduraMapTimestamps *timestamps);

// Gets the next chunk, valid until the next call on the snapshot. END after the last, and after a failure.
PerduraMapCode perdura_map_snapshot_next(PerduraMapSnapshot *snapshot, const void **data, size_t *bytes);

// Marks where the stream stands, after the chunk read last: perdura_map_snapshot_rewind goes back there, for
// a receiver that has lost what came later. Until the first call the mark is at the beginning.
PerduraMapCode perdura_map_snapshot_mark(PerduraMapSnapshot *snapshot);

// Goes back to the mark, also after the end or a failure: the chunks from there on are the same once more.
PerduraMapCode perdura_map_snapshot_rewind(PerduraMapSnapshot *snapshot);

// Releases a snapshot.
void perdura_map_snapshot_release(PerduraMapSnapshot *snapshot);

// Takes the chunks of a snapshot that replaces the content of a map.
typedef struct PerduraMapLoader PerduraMapLoader;

// Begins to load a snapshot into the map. Until perdura_map_load_finish reads see the old content, and
// changes fail with READ_ONLY.
//
// Errors: READ_ONLY if a snapshot is held or another load has begun, or the numbers of persists are used up.
PerduraMapCode perdura_map_load_begin(const PerduraMap *map, PerduraMapLoader **loader);

// perdura_map_load_begin that empties the map first, and so needs no room for both contents. From then on
// until a load finishes, also after a crash, reads and changes fail with PARTIAL.
//
// Errors: as perdura_map_load_begin.
PerduraMapCode perdura_map_load_reset(const PerduraMap *map, PerduraMapLoader **loader);

// Takes the next chunk of the snapshot, as perdura_map_snapshot_next gave it out and in the same order.
//
// Errors: DAMAGED if bytes or order are wrong, FULL.
PerduraMapCode perdura_map_load_push(PerduraMapLoader *loader, const void *data, size_t bytes);

// Replaces the map's content by what was loaded, durably. Releases the loader, whatever the outcome.
//
// Errors: DAMAGED if chunks are missing, FULL. The map then is as it was when the loader was made: emptied,
// if that was by perdura_map_load_reset.
PerduraMapCode perdura_map_load_finish(PerduraMapLoader *loader);

// Releases a loader. The map stays as it was when the loader was made: after perdura_map_load_reset emptied,
// and every read and change fails with PARTIAL until another load is finished.
void perdura_map_load_abandon(PerduraMapLoader *loader);

/* -- Maintenance */

// How a map uses its file, in bytes.
typedef struct PerduraMapSpace {
  // All pages.
  uint64_t total;
  // Pages that are in use, or may be.
  uint64_t used;
  // Free pages.
  uint64_t free;
  // Bytes that the newest persist reaches, and those added since.
  uint64_t live;
  // Other bytes of used pages.
  uint64_t garbage;
  // The longest run of free pages. A change fits if value, key and header are within this, and within `free`
  // less `reserved`.
  uint64_t free_run_max;
  // Free pages that only deletions, forgetting and the collector may take.
  uint64_t reserved;
  // Whether the use of every page is known. After an open, a B+-tree finds it out in the background.
  bool exact;
  // Whether a snapshot or a load keeps garbage from being collected.
  bool held;
} PerduraMapSpace;

// Gets how the map uses its file.
PerduraMapCode perdura_map_space(const PerduraMap *map, PerduraMapSpace *space);

// Collects garbage now, as the background thread does. `bytes` gets the bytes freed, 0 while a snapshot is
// held; it may be null.
//
// Errors: READ_ONLY.
PerduraMapCode perdura_map_collect(const PerduraMap *map, uint64_t *bytes);

// Reads everything reachable and verifies checksums, order and links. `versions` gets the number of versions
// found; it may be null.
//
// Errors: DAMAGED.
PerduraMapCode perdura_map_check(const PerduraMap *map, uint64_t *versions);

/* -- Closing */

// Persists a map's changes and closes it. After INTERNAL it does neither: the file stays in use until the
// process ends.
//
// Errors: BUSY if values, views, cursors, snapshots or loaders are not released; the map stays open.
PerduraMapCode perdura_map_close(PerduraMap *map);

#ifdef __cplusplus
}
#endif

#endif
