/* An ordered map from C: open, put, get, scan, crash, reopen, and see what is there.

   map DIRECTORY [list|btree]

   Two accounts begin with 1000 each. Every transfer changes both and is persisted. A child process
   makes transfers until it is killed in the middle, without a word to the map. Afterwards every
   persisted transfer is there, and none by half: the sum is 2000.

   Build: cc -std=c99 -Iinclude examples/map.c libperdura_capi.a $(pkg-config --libs libpmem2)
   -lpthread -ldl -lm */

#define _POSIX_C_SOURCE 200809L

#include "perdura_map.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#define NAME "accounts"
#define TRANSFERS_BEFORE_CRASH 300

static void need(PerduraMapCode code, const char *what) {
  if (code == PERDURA_MAP_CODE_OK)
    return;
  char message[400] = "";
  perdura_map_message(message, sizeof message);
  fprintf(stderr, "%s: %s (code %d)\n", what, message, (int)code);
  exit(1);
}

static PerduraMapDirectory *open_directory(const char *path) {
  PerduraMapDirectory *directory;
  /* Makes the directory if it is missing, and takes one that is not on persistent memory, so that
     the example runs anywhere. */
  need(perdura_map_directory_open(path, true, true, &directory), "open the directory");
  return directory;
}

/* Only perdura_map_persist ends a batch, so that one batch holds both halves of a transfer. */
static PerduraMapConfig config(void) {
  PerduraMapConfig config = perdura_map_config();
  config.changes_max = UINT32_MAX;
  config.background = false;
  return config;
}

static void create(const char *path, uint32_t kind) {
  PerduraMapDirectory *directory = open_directory(path);
  PerduraMapLayout layout = perdura_map_layout(kind, 8 << 20);
  PerduraMapConfig run = config();
  PerduraMap *map;
  need(perdura_map_create(directory, NAME, &layout, &run, &map), "create the map");
  need(perdura_map_put(map, "alice", 5, "1000", 4, NULL), "put");
  need(perdura_map_put(map, "bob", 3, "1000", 4, NULL), "put");
  need(perdura_map_persist(map), "persist");
  need(perdura_map_close(map), "close");
  perdura_map_directory_close(directory);
}

static PerduraMap *reopen(const PerduraMapDirectory *directory) {
  PerduraMapConfig run = config();
  PerduraMap *map;
  need(perdura_map_open(directory, NAME, &run, &map), "open the map");
  return map;
}

/* Reads a number in place, without a copy. */
static long get(const PerduraMap *map, const char *key) {
  PerduraMapValue value;
  PerduraMapCode code = perdura_map_get(map, key, strlen(key), PERDURA_MAP_NEWEST, &value);
  if (code == PERDURA_MAP_CODE_ABSENT)
    return 0;
  need(code, "get");
  char text[32] = "";
  if (value.bytes < sizeof text)
    memcpy(text, value.data, value.bytes);
  perdura_map_value_release(&value); /* From here on the library may reuse value.data. */
  return strtol(text, NULL, 10);
}

static void put(const PerduraMap *map, const char *key, long number) {
  char text[32];
  int bytes = snprintf(text, sizeof text, "%ld", number);
  need(perdura_map_put(map, key, strlen(key), text, (size_t)bytes, NULL), "put");
}

/* Makes transfers until killed, and reports each persisted one through `out`. */
static void transfer_for_ever(const char *path, int out) {
  PerduraMap *map = reopen(open_directory(path));
  for (uint32_t number = 1;; number++) {
    put(map, "alice", get(map, "alice") - 1);
    put(map, "bob", get(map, "bob") + 1);
    put(map, "transfers", (long)number);
    need(perdura_map_persist(map), "persist");
    if (write(out, &number, sizeof number) != (ssize_t)sizeof number)
      _exit(1);
  }
}

/* Makes transfers in a child process and kills it. Returns the last transfer that it reported. */
static uint32_t crash(const char *path) {
  int ends[2];
  pid_t child;
  if (pipe(ends) != 0 || (child = fork()) < 0) {
    perror("a process for the crash");
    exit(1);
  }
  if (child == 0) {
    close(ends[0]);
    transfer_for_ever(path, ends[1]);
  }
  close(ends[1]);
  uint32_t number = 0, persisted = 0;
  while (read(ends[0], &number, sizeof number) == (ssize_t)sizeof number) {
    persisted = number;
    if (number == TRANSFERS_BEFORE_CRASH)
      kill(child, SIGKILL); /* What it reported before it died is still read. */
  }
  close(ends[0]);
  int status;
  if (waitpid(child, &status, 0) != child || !WIFSIGNALED(status)) {
    fprintf(stderr, "the transfers ended by themselves\n");
    exit(1);
  }
  return persisted;
}

/* Prints the whole map in order, through a cursor. */
static void show(const PerduraMap *map) {
  PerduraMapCursor *cursor;
  PerduraMapEntry entry;
  PerduraMapCode code;
  need(perdura_map_scan(map, NULL, NULL, PERDURA_MAP_NEWEST, &cursor), "scan");
  while ((code = perdura_map_cursor_next(cursor, &entry)) == PERDURA_MAP_CODE_OK)
    printf("  %.*s = %.*s (timestamp %" PRIu64 ")\n", (int)entry.key_bytes, (const char *)entry.key,
           (int)entry.value_bytes, (const char *)entry.value, entry.ts);
  perdura_map_cursor_release(cursor);
  if (code != PERDURA_MAP_CODE_END)
    need(code, "scan on");
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s DIRECTORY [list|btree]\n", argv[0]);
    return 2;
  }
  create(argv[1], argc > 2 && strcmp(argv[2], "list") == 0 ? PERDURA_MAP_LIST : PERDURA_MAP_BTREE);
  uint32_t persisted = crash(argv[1]);
  printf("killed; %" PRIu32 " transfers were persisted\n", persisted);

  PerduraMapDirectory *directory = open_directory(argv[1]);
  PerduraMap *map = reopen(directory);
  show(map);
  uint64_t versions;
  need(perdura_map_check(map, &versions), "check");
  long alice = get(map, "alice"), bob = get(map, "bob"), transfers = get(map, "transfers");
  /* One more may be there: persisted, but killed before the report. */
  bool all = transfers == (long)persisted || transfers == (long)persisted + 1;
  bool whole = alice + bob == 2000 && alice == 1000 - transfers;
  printf("every persisted transfer is there: %s; none is there by half: %s\n", all ? "yes" : "NO", whole ? "yes" : "NO");
  need(perdura_map_close(map), "close");
  perdura_map_directory_close(directory);
  return all && whole ? 0 : 1;
}
