/* The C interface of Perdura's ordered maps. Made from crates/capi; `PERDURA_BLESS=1 cargo test -p perdura-capi --test header` makes it anew.

   A directory holds maps, a map holds keys with versions. A map may be used by many threads at once; a value, cursor,
   snapshot or loader by one at a time, and before the map is closed it is released. examples/map.c shows the use. Link with libperdura_capi.a and
   what pkg-config --libs libpmem2 says, and -lpthread -ldl -lm. */

#ifndef PERDURA_MAP_H
#define PERDURA_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The persistent append-only list with its ordered index in DRAM: fastest to change.
#define PERDURA_MAP_LIST 1

// The persistent copy-on-write B+-tree: open at once, however large.
#define PERDURA_MAP_BTREE 2

// A timestamp to read at: the newest version of each key, whether confirmed or applied or not.
#define PERDURA_MAP_NEWEST UINT64_MAX

// Least of the most bytes of a chunk.
#define PERDURA_MAP_CHUNK_BYTES_MIN 64

// Outcome of a call on a map. Everything from NOT_FOUND on is a failure with a message: see `perdura_map_message`.
typedef enum PerduraMapCode {
  // Done.
  PERDURA_MAP_CODE_OK = 0,
  // No further entry or chunk.
  PERDURA_MAP_CODE_END,
  // The key has no value.
  PERDURA_MAP_CODE_ABSENT,
  // The key has another value than the one expected; nothing is changed.
  PERDURA_MAP_CODE_DIFFERS,
  // No such directory or map.
  PERDURA_MAP_CODE_NOT_FOUND,
  // The name is taken.
  PERDURA_MAP_CODE_EXISTS,
  // An argument is null, out of its range, or not a name.
  PERDURA_MAP_CODE_ARGUMENT,
  // The key or the value is longer than a map takes.
  PERDURA_MAP_CODE_TOO_LARGE,
  // The timestamp is not allowed for this call now.
  PERDURA_MAP_CODE_TIMESTAMP,
  // The versions asked for have been forgotten.
  PERDURA_MAP_CODE_FORGOTTEN,
  // The region has no room. Nothing is changed; delete, forget and collect.
  PERDURA_MAP_CODE_FULL,
  // The file is not a map.
  PERDURA_MAP_CODE_FOREIGN,
  // The file was made by another version of the format.
  PERDURA_MAP_CODE_VERSION,
  // Bytes in the file or in a snapshot are not what they must be.
  PERDURA_MAP_CODE_DAMAGED,
  // The map takes no changes now: a snapshot is being loaded, or one is held that stands in the way.
  PERDURA_MAP_CODE_READ_ONLY,
  // The medium refused.
  PERDURA_MAP_CODE_MEDIUM,
  // Values, cursors, snapshots or loaders of the map are not released, or the map is open already.
  PERDURA_MAP_CODE_BUSY,
  // A defect: the map takes no more changes.
  PERDURA_MAP_CODE_INTERNAL,
} PerduraMapCode;

// An open map.
typedef struct PerduraMap PerduraMap;

// A walk over keys in ascending order. It sees the map as it was when the walk began.
typedef struct PerduraMapCursor PerduraMapCursor;

// A directory of maps. A process opens it once, and all maps in it through it.
typedef struct PerduraMapDirectory PerduraMapDirectory;

// What keeps a value in its place.
typedef struct PerduraMapHold PerduraMapHold;

// Takes the chunks of a snapshot.
typedef struct PerduraMapLoader PerduraMapLoader;

// A snapshot. While it is held nothing is collected; all else goes on.
typedef struct PerduraMapSnapshot PerduraMapSnapshot;

// Bytes of the caller.
typedef struct PerduraMapBytes {
  // Where they are; may be null if there are none.
  const void *data;
  // Their number.
  size_t bytes;
} PerduraMapBytes;

// One end of a range of keys. A null pointer instead of it is no bound.
typedef struct PerduraMapBound {
  // The key.
  const void *key;
  // Its bytes.
  size_t key_bytes;
  // Whether the key itself is outside the range.
  bool excluded;
} PerduraMapBound;

// A key, its value and the timestamp that gave it, in their place in the region: valid until the next call on the cursor.
typedef struct PerduraMapEntry {
  // The key's bytes; not to be written to.
  const void *key;
  // Their number.
  size_t key_bytes;
  // The value's bytes; not to be written to.
  const void *value;
  // Their number.
  size_t value_bytes;
  // Timestamp of the version.
  uint64_t ts;
} PerduraMapEntry;

// What a map is made with.
typedef struct PerduraMapLayout {
  // PERDURA_MAP_LIST or PERDURA_MAP_BTREE.
  uint32_t kind;
  // Bytes of a page, a power of two from 256 to 65,536.
  uint32_t page_bytes;
  // Most children of a node, from 4 to 64.
  uint32_t branching;
  // Bytes of the file; it does not grow.
  uint64_t bytes;
} PerduraMapLayout;

// How a map is run.
typedef struct PerduraMapConfig {
  // Changes after which a batch is confirmed; 1 makes each durable before its call returns.
  uint32_t changes_max;
  // A batch is confirmed when it is older than about so many microseconds.
  uint64_t interval_us;
  // Whether a thread confirms idle batches and collects garbage. Without it the caller does.
  bool background;
} PerduraMapConfig;

// Where a map stands.
typedef struct PerduraMapTimestamps {
  // Of the newest change.
  uint64_t last;
  // Of the newest change that can no longer be rolled back.
  uint64_t applied;
  // Up to here old versions may be gone; reads below it fail.
  uint64_t forgotten;
  // `last` as of the newest confirmation.
  uint64_t confirmed;
} PerduraMapTimestamps;

// One change that is not forgotten. Its bytes are valid until the call it is given to returns.
typedef struct PerduraMapMutation {
  // Its timestamp.
  uint64_t ts;
  // The key it changed.
  const void *key;
  // The key's bytes.
  size_t key_bytes;
  // Whether it deleted the key.
  bool deleted;
  // The value it gave the key; null if it deleted it.
  const void *value;
  // The value's bytes.
  size_t value_bytes;
} PerduraMapMutation;

// A value in its place in the region: valid until released, whatever happens to the key meanwhile. It holds off the
// reuse of the memory it lies in, so release it soon.
typedef struct PerduraMapValue {
  // Its bytes; not to be written to.
  const void *data;
  // Their number.
  size_t bytes;
  // The map's own; null if there is nothing to release.
  struct PerduraMapHold *hold;
} PerduraMapValue;

// Bytes of a map's region by use.
typedef struct PerduraMapSpace {
  // For pages, in all.
  uint64_t total;
  // Of pages that hold something or may.
  uint64_t used;
  // Of free pages.
  uint64_t free;
  // Of what is reachable from the newest confirmation.
  uint64_t live;
  // In used pages, but not live.
  uint64_t garbage;
  // Of the longest run of free pages. A value fits if its bytes, with key and header, are within this and free less reserved.
  uint64_t free_run_max;
  // Of the free bytes, those that only deletions, forgetting and the collector may take.
  uint64_t reserved;
  // Whether the use of every page is known; a B+-tree finds that out in the background after it is opened.
  bool exact;
} PerduraMapSpace;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Gives `key` a value at timestamp `ts`. A second change of a key at one timestamp replaces the first.
//
// # Errors
// TIMESTAMP when `ts` is below the newest change's or not above the applied one; TOO_LARGE, FULL, READ_ONLY, DAMAGED,
// ARGUMENT.
//
// # Safety
// `map` must be open, `key` and `value` readable for as many bytes as said; each may be null.
enum PerduraMapCode perdura_map_set(const struct PerduraMap *map,
                                    uint64_t ts,
                                    const void *key,
                                    size_t key_bytes,
                                    const void *value,
                                    size_t value_bytes);

// Deletes `key` at timestamp `ts`. ABSENT if it had no value; then nothing changes.
//
// # Errors
// As `perdura_map_set`.
//
// # Safety
// `map` must be open, `key` readable for `key_bytes` bytes; each may be null.
enum PerduraMapCode perdura_map_delete(const struct PerduraMap *map,
                                       uint64_t ts,
                                       const void *key,
                                       size_t key_bytes);

// If the newest version of `key`, confirmed or not, is `expected`, changes it to `desired` at timestamp `ts`;
// otherwise DIFFERS. `expected` null: it has no value. `desired` null: it is deleted.
//
// # Errors
// As `perdura_map_set`.
//
// # Safety
// `map` must be open, `key` readable for `key_bytes` bytes, `expected` and `desired` readable and what they point to
// too; each may be null.
enum PerduraMapCode perdura_map_compare_and_set(const struct PerduraMap *map,
                                                uint64_t ts,
                                                const void *key,
                                                size_t key_bytes,
                                                const struct PerduraMapBytes *expected,
                                                const struct PerduraMapBytes *desired);

// Gives `key` a value at the next timestamp, applied, and forgets what it replaces: for programs without replication.
// `ts` gets the timestamp, unless it is null.
//
// # Errors
// As `perdura_map_set`.
//
// # Safety
// `map` must be open, `key` and `value` readable for as many bytes as said, `ts` writable; each may be null.
enum PerduraMapCode perdura_map_put(const struct PerduraMap *map,
                                    const void *key,
                                    size_t key_bytes,
                                    const void *value,
                                    size_t value_bytes,
                                    uint64_t *ts);

// Deletes `key` as `perdura_map_put` puts it. ABSENT if it had no value.
//
// # Errors
// As `perdura_map_set`.
//
// # Safety
// `map` must be open, `key` readable for `key_bytes` bytes; each may be null.
enum PerduraMapCode perdura_map_remove(const struct PerduraMap *map,
                                       const void *key,
                                       size_t key_bytes);

// Copies the message of the calling thread's last failure to `target`, cut to `bytes` and ended with a zero byte.
//
// # Safety
// `target` must be null or writable for `bytes` bytes.
void perdura_map_message(char *target,
                         size_t bytes);

// Begins a walk over the keys between two bounds that have a value at timestamp `at`. A null bound is none.
//
// # Errors
// FORGOTTEN, DAMAGED, TOO_LARGE, ARGUMENT.
//
// # Safety
// `map` must be open, the bounds readable and their keys too, `cursor` writable; each may be null.
enum PerduraMapCode perdura_map_scan(const struct PerduraMap *map,
                                     const struct PerduraMapBound *lower,
                                     const struct PerduraMapBound *upper,
                                     uint64_t at,
                                     struct PerduraMapCursor **cursor);

// Begins a walk over the keys that begin with `prefix` and have a value at timestamp `at`.
//
// # Errors
// FORGOTTEN, DAMAGED, TOO_LARGE, ARGUMENT.
//
// # Safety
// `map` must be open, `prefix` readable for `prefix_bytes` bytes, `cursor` writable; each may be null.
enum PerduraMapCode perdura_map_prefix(const struct PerduraMap *map,
                                       const void *prefix,
                                       size_t prefix_bytes,
                                       uint64_t at,
                                       struct PerduraMapCursor **cursor);

// Goes to the next key. END after the last one, and after a failure.
//
// # Errors
// DAMAGED, ARGUMENT.
//
// # Safety
// `cursor` must be live and used by this thread alone, `entry` writable; each may be null.
enum PerduraMapCode perdura_map_cursor_next(struct PerduraMapCursor *cursor,
                                            struct PerduraMapEntry *entry);

// Ends a walk. Null is no error.
//
// # Safety
// `cursor` must be null or live, and neither it nor its entry may be used any more.
void perdura_map_cursor_release(struct PerduraMapCursor *cursor);

// Opens a directory of maps.
//
// `create` makes the directory if there is none. `emulate` goes on if it is not on DAX persistent memory: data then
// survive a crash of the process, not a loss of power.
//
// # Errors
// NOT_FOUND, MEDIUM (not DAX, in use by another process, or refused by the system).
//
// # Safety
// `path` must be null or a C string, `directory` null or writable.
enum PerduraMapCode perdura_map_directory_open(const char *path,
                                               bool create,
                                               bool emulate,
                                               struct PerduraMapDirectory **directory);

// Closes a directory. Its maps may be closed before or after.
//
// # Safety
// `directory` must be null or open, and nobody may use it any more.
void perdura_map_directory_close(struct PerduraMapDirectory *directory);

// Begins to load a snapshot into the map.
//
// Nothing changes before `perdura_map_load_finish`; until then changes fail with READ_ONLY, and reads see what was
// there before.
//
// # Errors
// READ_ONLY, FULL, DAMAGED, ARGUMENT.
//
// # Safety
// `map` must be open, `loader` writable; each may be null.
enum PerduraMapCode perdura_map_load_begin(const struct PerduraMap *map,
                                           struct PerduraMapLoader **loader);

// Takes the next chunk of the snapshot, in order, exactly as it was given out.
//
// # Errors
// DAMAGED (wrong bytes or order), FULL, ARGUMENT.
//
// # Safety
// `loader` must be live and used by this thread alone, `data` readable for `bytes` bytes; each may be null.
enum PerduraMapCode perdura_map_load_push(struct PerduraMapLoader *loader,
                                          const void *data,
                                          size_t bytes);

// Puts what was loaded in place of the map's content, durably, and releases the loader, whatever the outcome.
//
// # Errors
// DAMAGED when chunks are missing, FULL: the content is what it was before. ARGUMENT.
//
// # Safety
// `loader` must be null or live, and nobody may use it any more.
enum PerduraMapCode perdura_map_load_finish(struct PerduraMapLoader *loader);

// Releases a loader without changing the map. Null is no error.
//
// # Safety
// `loader` must be null or live, and nobody may use it any more.
void perdura_map_load_abandon(struct PerduraMapLoader *loader);

// The best layout known for a map of `kind` in a file of `bytes` bytes.
struct PerduraMapLayout perdura_map_layout(uint32_t kind, uint64_t bytes);

// How a map is run if nobody says.
struct PerduraMapConfig perdura_map_config(void);

// Makes an empty map in a new file. `config` may be null for the default.
//
// `name` consists of a-z, 0-9, '.' and '_', and does not begin with '.'.
//
// # Errors
// EXISTS, ARGUMENT, FULL, MEDIUM.
//
// # Safety
// `directory` must be open, `name` a C string, `layout` and `config` readable, `map` writable; each may be null.
enum PerduraMapCode perdura_map_create(const struct PerduraMapDirectory *directory,
                                       const char *name,
                                       const struct PerduraMapLayout *layout,
                                       const struct PerduraMapConfig *config,
                                       struct PerduraMap **map);

// Opens the map in file `name`, of whichever kind it is, as its newest confirmation left it. `config` may be null.
//
// # Errors
// NOT_FOUND, BUSY (open already), FOREIGN, VERSION, DAMAGED, ARGUMENT, MEDIUM.
//
// # Safety
// `directory` must be open, `name` a C string, `config` readable, `map` writable; each may be null.
enum PerduraMapCode perdura_map_open(const struct PerduraMapDirectory *directory,
                                     const char *name,
                                     const struct PerduraMapConfig *config,
                                     struct PerduraMap **map);

// Closes a map, confirmed. Null is no error. After INTERNAL it is not confirmed, and its file stays in use until the
// process ends.
//
// # Errors
// BUSY: values, cursors, snapshots or loaders are not released; the map stays open.
//
// # Safety
// `map` must be null or open, and nobody may use it any more.
enum PerduraMapCode perdura_map_close(struct PerduraMap *map);

// Makes all changes so far durable. Two fences; none when nothing changed.
//
// # Errors
// ARGUMENT.
//
// # Safety
// `map` must be null or open.
enum PerduraMapCode perdura_map_confirm(const struct PerduraMap *map);

// Moves the applied timestamp up to `ts`: nothing up to it will be rolled back. Durable with the next confirmation.
//
// # Errors
// TIMESTAMP when `ts` is above the newest change's; READ_ONLY, DAMAGED.
//
// # Safety
// `map` must be null or open.
enum PerduraMapCode perdura_map_apply(const struct PerduraMap *map,
                                      uint64_t ts);

// Takes back every change at timestamp `from` and later.
//
// # Errors
// TIMESTAMP when `from` is not above the applied one; FULL, READ_ONLY, DAMAGED.
//
// # Safety
// `map` must be null or open.
enum PerduraMapCode perdura_map_rollback(const struct PerduraMap *map, uint64_t from);

// Drops the versions that no read at `up_to` or later sees. Not confirmed by itself.
//
// # Errors
// TIMESTAMP when `up_to` is above the applied one; FULL, READ_ONLY, DAMAGED.
//
// # Safety
// `map` must be null or open.
enum PerduraMapCode perdura_map_forget(const struct PerduraMap *map, uint64_t up_to);

// Tells where the map stands.
//
// # Errors
// ARGUMENT.
//
// # Safety
// `map` must be open, `timestamps` writable; each may be null.
enum PerduraMapCode perdura_map_timestamps(const struct PerduraMap *map,
                                           struct PerduraMapTimestamps *timestamps);

// Calls `each` with the changes from timestamp `from` on that are not forgotten, oldest first, until it returns false.
// It may not use the map.
//
// # Errors
// DAMAGED, ARGUMENT.
//
// # Safety
// `map` must be open; `each` must be callable with `context`, and not leave by an exception or a jump. Each may be null.
enum PerduraMapCode perdura_map_mutations(const struct PerduraMap *map,
                                          uint64_t from,
                                          bool (*each)(void *context,
                                                       const struct PerduraMapMutation *mutation),
                                          void *context);

// Gives the value `key` has at timestamp `at`, without a copy. It must be released by `perdura_map_value_release`.
//
// ABSENT if it has none. Whenever the outcome is not OK, `value` is empty and needs no release.
//
// # Errors
// FORGOTTEN, DAMAGED, TOO_LARGE, ARGUMENT.
//
// # Safety
// `map` must be open, `key` readable for `key_bytes` bytes, `value` writable; each may be null.
enum PerduraMapCode perdura_map_get(const struct PerduraMap *map,
                                    const void *key,
                                    size_t key_bytes,
                                    uint64_t at,
                                    struct PerduraMapValue *value);

// Releases a value and empties it. An empty one, and null, are no error.
//
// # Safety
// `value` must be null or as `perdura_map_get` left it, and its bytes not be used any more.
void perdura_map_value_release(struct PerduraMapValue *value);

// Copies the value `key` has at timestamp `at`, as much of it as `buffer_bytes` has room for.
//
// `value_bytes` gets the length of the whole value: if that is more than `buffer_bytes`, the copy is cut. ABSENT if the
// key has no value.
//
// # Errors
// FORGOTTEN, DAMAGED, TOO_LARGE, ARGUMENT.
//
// # Safety
// `map` must be open, `key` readable for `key_bytes` bytes, `buffer` writable for `buffer_bytes` bytes, `value_bytes`
// writable; each may be null.
enum PerduraMapCode perdura_map_read(const struct PerduraMap *map,
                                     const void *key,
                                     size_t key_bytes,
                                     uint64_t at,
                                     void *buffer,
                                     size_t buffer_bytes,
                                     size_t *value_bytes);

// Takes a snapshot of the map, confirmed first, to be read in chunks of at most `chunk_bytes_max` bytes.
//
// # Errors
// ARGUMENT (less than PERDURA_MAP_CHUNK_BYTES_MIN), READ_ONLY, DAMAGED.
//
// # Safety
// `map` must be open, `snapshot` writable; each may be null.
enum PerduraMapCode perdura_map_snapshot(const struct PerduraMap *map,
                                         size_t chunk_bytes_max,
                                         struct PerduraMapSnapshot **snapshot);

// Tells where the map stood when the snapshot was taken.
//
// # Errors
// ARGUMENT.
//
// # Safety
// `snapshot` must be live, `timestamps` writable; each may be null.
enum PerduraMapCode perdura_map_snapshot_timestamps(const struct PerduraMapSnapshot *snapshot,
                                                    struct PerduraMapTimestamps *timestamps);

// Gives the next chunk, valid until the next call on the snapshot. END after the last one, and after a failure.
//
// # Errors
// DAMAGED, ARGUMENT.
//
// # Safety
// `snapshot` must be live and used by this thread alone, `data` and `bytes` writable; each may be null.
enum PerduraMapCode perdura_map_snapshot_next(struct PerduraMapSnapshot *snapshot,
                                              const void **data,
                                              size_t *bytes);

// Releases a snapshot. Null is no error.
//
// # Safety
// `snapshot` must be null or live, and neither it nor its chunk may be used any more.
void perdura_map_snapshot_release(struct PerduraMapSnapshot *snapshot);

// Tells how the region is used.
//
// # Errors
// ARGUMENT.
//
// # Safety
// `map` must be open, `space` writable; each may be null.
enum PerduraMapCode perdura_map_space(const struct PerduraMap *map, struct PerduraMapSpace *space);

// Collects garbage now, as the background thread does. `bytes` gets the bytes freed, unless it is null; 0 while a
// snapshot is held.
//
// # Errors
// DAMAGED, READ_ONLY, ARGUMENT.
//
// # Safety
// `map` must be open, `bytes` writable; each may be null.
enum PerduraMapCode perdura_map_collect(const struct PerduraMap *map,
                                        uint64_t *bytes);

// Reads and verifies everything reachable. `versions` gets the number of versions found, unless it is null.
//
// # Errors
// DAMAGED, ARGUMENT.
//
// # Safety
// `map` must be open, `versions` writable; each may be null.
enum PerduraMapCode perdura_map_check(const struct PerduraMap *map,
                                      uint64_t *versions);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* PERDURA_MAP_H */
