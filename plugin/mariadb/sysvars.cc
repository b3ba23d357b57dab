/* Copyright (c) 2026, The Perdura developers

   This program is free software; you can redistribute it and/or modify
   it under the terms of the GNU General Public License as published by
   the Free Software Foundation; version 2 of the License.

   This program is distributed in the hope that it will be useful,
   but WITHOUT ANY WARRANTY; without even the implied warranty of
   MERCHANTABILITY or FITNESS FOR A PARTICULAR PURPOSE.  See the
   GNU General Public License for more details.

   You should have received a copy of the GNU General Public License
   along with this program; if not, write to the Free Software
   Foundation, Inc., 51 Franklin Street, Fifth Floor, Boston, MA 02110-1301, USA */

/* System variables: where the pool is, how it runs, and the hold for a backup. */

#include "perdura_plugin.h"

#include <atomic>

namespace perdura {

static char *directory;
static char *log_directory;
static my_bool emulate;
static my_bool require_dax;
static ulonglong journal_size;
static ulonglong checkpoint_log_size;
static uint checkpoint_interval;
static my_bool accept_unsafe_shutdown;
static char *emulate_model;
static ulonglong data_file_size;
static uint open_files;
static ulonglong kept_file_bytes;
static ulonglong transaction_memory;
static uint log_lanes;
static ulonglong log_lane_size;
static uint log_generations;
static uint log_generations_max;
static ulong log_path;
static ulonglong log_buffer_size;
static uint log_write_ahead_size;
static my_bool prefault;
static my_bool hold;
static uint prefault_threads;
static my_bool prefault_wait;
static my_bool numa;

/* The pool's directory unless perdura_dir is set: in the server's data directory, and made if
   missing. No database can have that name. */
static char default_directory[]= "./#perdura";
/* Its directory in the first builds. A pool that lies there is still used. */
static char former_directory[]= "./perdura";

static constexpr ulonglong KIB= 1024, MIB= 1024 * KIB, GIB= 1024 * MIB;

static void update_transaction_memory(THD *, st_mysql_sys_var *, void *target, const void *value)
{
  transaction_memory= *static_cast<const ulonglong *>(value);
  *static_cast<ulonglong *>(target)= transaction_memory;
  if (pool)
    perdura_set_transaction_memory(pool, transaction_memory);
}

static void update_kept_file_bytes(THD *, st_mysql_sys_var *, void *target, const void *value)
{
  kept_file_bytes= *static_cast<const ulonglong *>(value);
  *static_cast<ulonglong *>(target)= kept_file_bytes;
  if (pool)
    perdura_set_kept_file_bytes(pool, kept_file_bytes);
}

static void update_prefault(THD *, st_mysql_sys_var *, void *target, const void *value)
{
  *static_cast<my_bool *>(target)= *static_cast<const my_bool *>(value);
  if (pool)
    perdura_set_prefault(pool, prefault);
}

/* How long a hold waits for running statements, and after how much of that it looks whether its
   connection was killed, in milliseconds. */
static constexpr ulonglong HOLD_TIMEOUT_MS= 10000, HOLD_LOOK_MS= 20;

/* The hold that the connection in BACKUP STAGE BLOCK_COMMIT has asked for last, or the one that was
   there before; 0 before the first. The server lets one connection at a time into a backup, and
   that one alone writes it. It may have been released meanwhile. */
static std::atomic<uint64_t> backup_hold;

/* Tells why the pool cannot be held: whether it is worth another try, as its number says. */
static void hold_error(PerduraCode code)
{
  const bool passes= code == PERDURA_CODE_LOCK_WAIT_TIMEOUT || code == PERDURA_CODE_EXISTS;
  char message[MESSAGE_BYTES];
  perdura_message(reinterpret_cast<uint8_t *>(message), sizeof(message));
  my_printf_error(passes ? ER_LOCK_WAIT_TIMEOUT : ER_GET_ERRMSG, "Perdura: the pool cannot be held: %s", MYF(0), message);
}

/* Waits until the hold is there or cannot be; false, with an error, if not. */
static bool await_hold(THD *thd, uint64_t number)
{
  PerduraCode code= PERDURA_CODE_LOCK_WAIT_TIMEOUT;
  for (ulonglong waited= 0; code == PERDURA_CODE_LOCK_WAIT_TIMEOUT && waited < HOLD_TIMEOUT_MS; waited+= HOLD_LOOK_MS)
  {
    if (thd_killed(thd))
    {
      thd->send_kill_message();
      return false;
    }
    code= perdura_hold_wait(pool, number, HOLD_LOOK_MS);
  }
  if (code == PERDURA_CODE_OK)
    return true;
  hold_error(code);
  return false;
}

/* Holds the pool; true if that fails, with an error. */
static bool begin_hold(THD *thd)
{
  uint64_t number;
  const PerduraCode code= perdura_hold_begin(pool, &number);
  if (code != PERDURA_CODE_OK)
  {
    hold_error(code);
    return true;
  }
  backup_hold= number;
  if (!await_hold(thd, number))
  {
    perdura_release(pool, number);
    return true;
  }
  sql_print_information("Perdura: the pool is held for a backup");
  return false;
}

/* The check of SET GLOBAL perdura_hold does the work: there it may wait and fail, for the server
   holds no lock on variables. */
static int set_hold(THD *thd, st_mysql_sys_var *, void *target, st_mysql_value *value)
{
  longlong wanted= 0;
  char buffer[8];
  int length= sizeof(buffer);
  if (value->value_type(value) == MYSQL_VALUE_TYPE_STRING)
  {
    const char *word= value->val_str(value, buffer, &length);
    if (!word || (my_strcasecmp(system_charset_info, word, "ON") && my_strcasecmp(system_charset_info, word, "OFF")))
      return 1;
    wanted= !my_strcasecmp(system_charset_info, word, "ON");
  }
  else if (value->val_int(value, &wanted) || (wanted != 0 && wanted != 1))
    return 1;
  if (!pool || thd->current_backup_stage != BACKUP_LOCK_COMMIT)
  {
    my_printf_error(ER_GET_ERRMSG, "Perdura: perdura_hold can be set only by the connection that is in BACKUP STAGE BLOCK_COMMIT; "
                                   "the pool is released with BACKUP STAGE END, when the connection ends, or by SET GLOBAL "
                                   "perdura_hold=DEFAULT", MYF(0));
    return 1;
  }
  *static_cast<my_bool *>(target)= wanted != 0;
  if (wanted)
    return begin_hold(thd);
  if (perdura_release(pool, backup_hold))
    return 0;
  my_printf_error(ER_GET_ERRMSG, "Perdura: the pool was not held any more", MYF(0));
  return 1;
}

/* SET GLOBAL perdura_hold=DEFAULT comes here without a check, from any connection: it ends whatever
   hold there is. After a check that is done, and what counts is what has become of the hold
   since. */
static void update_hold(THD *thd, st_mysql_sys_var *, void *target, const void *value)
{
  const uint64_t present= pool ? perdura_present_hold(pool) : 0;
  const bool wanted= *static_cast<const my_bool *>(value);
  if (present && !wanted && perdura_release(pool, present))
    sql_print_warning("Perdura: connection %llu has ended the hold of the pool; a copy that was being made is no backup",
                      static_cast<ulonglong>(thd_get_thread_id(thd)));
  *static_cast<my_bool *>(target)= wanted && present;
}

void end_backup()
{
  hold= false;
  if (pool && perdura_release(pool, backup_hold))
    sql_print_information("Perdura: the backup has ended; the pool takes changes again");
}

static MYSQL_SYSVAR_BOOL(hold, hold, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_NOCMDOPT,
  "Holds the pool still for a backup: changes wait until it is OFF again or BACKUP STAGE ends. Set by the connection in BACKUP "
  "STAGE BLOCK_COMMIT", set_hold, update_hold, false);

static MYSQL_SYSVAR_STR(dir, directory, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Directory of the pool: on a file system mounted with -o dax, or on any disk", nullptr, nullptr, default_directory);

static MYSQL_SYSVAR_STR(log_dir, log_directory, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Directory of the pool's log, if it is another than perdura_dir: on persistent memory, say, with the data on a disk. Used when "
  "the pool is created, and to be the same from then on", nullptr, nullptr, "");

static MYSQL_SYSVAR_BOOL(emulate, emulate, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
  "Take a directory that is not on persistent memory as if it were. Data then survive a crash of the server, not a loss of power",
  nullptr, nullptr, false);

static MYSQL_SYSVAR_BOOL(require_dax, require_dax, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
  "Do not start if the directory is not on persistent memory, rather than use it as a disk", nullptr, nullptr, false);

static MYSQL_SYSVAR_ULONGLONG(journal_size, journal_size, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Bytes that the journal of a pool on a disk may take: when it is half full, a checkpoint is made",
  nullptr, nullptr, 256 * MIB, 32 * MIB, 64 * GIB, 16 * MIB);

static MYSQL_SYSVAR_ULONGLONG(checkpoint_log_size, checkpoint_log_size, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Bytes of log after which a pool on a disk makes a checkpoint: about what a start after a crash has to redo. At most half of "
  "what the log may take", nullptr, nullptr, 256 * MIB, MIB, 64 * GIB, MIB);

static MYSQL_SYSVAR_UINT(checkpoint_interval, checkpoint_interval, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Seconds after which a pool on a disk makes a checkpoint, if anything has changed", nullptr, nullptr, 60, 1, 86400, 1);

static MYSQL_SYSVAR_BOOL(accept_unsafe_shutdown, accept_unsafe_shutdown, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
  "Open the pool although its persistent memory has counted dirty shutdowns since it was last open, which may have lost "
  "committed data. Run `perdura check` first", nullptr, nullptr, false);
static MYSQL_SYSVAR_STR(emulate_model, emulate_model, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Medium whose time emulated memory takes: optane, nv-cmm, dram, or off; with @N for a device of NUMA node N. For measurements",
  nullptr, nullptr, "off");

static MYSQL_SYSVAR_ULONGLONG(data_file_size, data_file_size, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Size of a table's data files once the table has grown, in bytes", nullptr, nullptr, 64 * MIB, MIB, 32 * GIB, MIB);

static MYSQL_SYSVAR_UINT(open_files, open_files, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Data files of open tables beyond which tables that nobody uses are closed. Each is a mapping: keep well below vm.max_map_count",
  nullptr, nullptr, 4096, 16, 1024 * 1024 * 1024, 1);

static MYSQL_SYSVAR_ULONGLONG(kept_file_bytes, kept_file_bytes, PLUGIN_VAR_RQCMDARG,
  "Bytes of data files of dropped, truncated and rebuilt tables that are kept, faulted in, for the next files that tables need. "
  "They go first when the device is full. 0 keeps none", nullptr, update_kept_file_bytes, 256 * MIB, 0, 1ULL << 44, 1);

static MYSQL_SYSVAR_UINT(log_lanes, log_lanes, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Lanes of the log, written in parallel; 0: as many as suit the medium, 4 or on a disk 1. Used when the pool is created",
  nullptr, nullptr, 0, 0, 64, 1);

static MYSQL_SYSVAR_ULONGLONG(log_lane_size, log_lane_size, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Size of a lane of the log, in bytes. Used when the pool is created", nullptr, nullptr, 16 * MIB, 64 * KIB, 2 * GIB, 4 * KIB);

static MYSQL_SYSVAR_UINT(log_generations, log_generations, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Generations of the log to begin with, and to which it shrinks back", nullptr, nullptr, 2, 2, 64, 1);

static MYSQL_SYSVAR_UINT(log_generations_max, log_generations_max, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Generations the log may grow to while transactions need them", nullptr, nullptr, 16, 2, 64, 1);

static const char *log_path_names[]= {"direct", "classic", "persist", "write_ahead", "local", "nf", NullS};
static TYPELIB log_path_typelib= CREATE_TYPELIB_FOR(log_path_names);

static MYSQL_SYSVAR_ENUM(log_path, log_path, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Way of a transaction's record to the log: direct, its session writes it; classic, through a log buffer, a log writer and a log "
  "flusher; persist, write_ahead, local: classic with one part of nf; nf, the log writer makes durable what it writes, in small "
  "blocks, beside the medium", nullptr, nullptr, 0, &log_path_typelib);

static MYSQL_SYSVAR_ULONGLONG(log_buffer_size, log_buffer_size, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Size of the log buffer in bytes, a power of two. Not used by the log path direct", nullptr, nullptr, MIB, 64 * KIB, GIB, 64 * KIB);

static MYSQL_SYSVAR_UINT(log_write_ahead_size, log_write_ahead_size, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Granularity of the log writer's write-ahead in bytes, a power of two; 0: 8192, or 512 for the log paths write_ahead and nf. Not "
  "used by the log path direct", nullptr, nullptr, 0, 0, 8 * KIB, 256);

static MYSQL_SYSVAR_ULONGLONG(transaction_memory, transaction_memory, PLUGIN_VAR_RQCMDARG,
  "Bytes of memory that the changes of one transaction may take before parts of them are written to the pool",
  nullptr, update_transaction_memory, 64ULL << 20, 64ULL << 10, 1ULL << 40, 1024);

static MYSQL_SYSVAR_BOOL(prefault, prefault, PLUGIN_VAR_OPCMDARG,
  "Fault files in ahead of their use", nullptr, update_prefault, true);

static MYSQL_SYSVAR_UINT(prefault_threads, prefault_threads, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Threads that fault files in", nullptr, nullptr, 1, 1, 64, 1);

static MYSQL_SYSVAR_BOOL(prefault_wait, prefault_wait, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
  "Start only once the log, and the tables that recovery has changed, are faulted in", nullptr, nullptr, false);

static MYSQL_SYSVAR_BOOL(numa, numa, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
  "Run threads that work on the pool on the NUMA node of its memory, where the machine has several and that one is known, while "
  "its processors are not full", nullptr, nullptr, false);

static MYSQL_THDVAR_ULONG(lock_wait_timeout, PLUGIN_VAR_RQCMDARG,
  "How long a lock is waited for before the statement is rolled back, in seconds", nullptr, nullptr,
  50, 0, 1024 * 1024 * 1024, 1);

static MYSQL_THDVAR_BOOL(snapshot_isolation, PLUGIN_VAR_OPCMDARG,
  "At REPEATABLE READ, changing or locking a row that was changed after the transaction's snapshot is error 1213. OFF: such "
  "statements work on the newest rows, as InnoDB's do with innodb_snapshot_isolation=OFF", nullptr, nullptr,
  SNAPSHOT_ISOLATION_DEFAULT);

static const char *missing_choices[]= {"refuse", "warn", nullptr};
static constexpr ulong MISSING_REFUSE= 0, MISSING_WARN= 1;
static TYPELIB missing_choice= CREATE_TYPELIB_FOR(missing_choices);

static MYSQL_THDVAR_ENUM(missing_features, PLUGIN_VAR_RQCMDARG,
  "A table with a key of a kind that the engine does not have (FULLTEXT, SPATIAL, WITHOUT OVERLAPS): refuse it, or warn of each such "
  "key and make the table with it as a definition only", nullptr, nullptr, MISSING_REFUSE, &missing_choice);

st_mysql_sys_var *system_variables[]= {
  MYSQL_SYSVAR(dir),
  MYSQL_SYSVAR(log_dir),
  MYSQL_SYSVAR(emulate),
  MYSQL_SYSVAR(require_dax),
  MYSQL_SYSVAR(journal_size),
  MYSQL_SYSVAR(checkpoint_log_size),
  MYSQL_SYSVAR(checkpoint_interval),
  MYSQL_SYSVAR(accept_unsafe_shutdown),
  MYSQL_SYSVAR(emulate_model),
  MYSQL_SYSVAR(hold),
  MYSQL_SYSVAR(data_file_size),
  MYSQL_SYSVAR(open_files),
  MYSQL_SYSVAR(kept_file_bytes),
  MYSQL_SYSVAR(log_lanes),
  MYSQL_SYSVAR(log_lane_size),
  MYSQL_SYSVAR(log_generations),
  MYSQL_SYSVAR(log_generations_max),
  MYSQL_SYSVAR(log_path),
  MYSQL_SYSVAR(log_buffer_size),
  MYSQL_SYSVAR(log_write_ahead_size),
  MYSQL_SYSVAR(prefault),
  MYSQL_SYSVAR(prefault_threads),
  MYSQL_SYSVAR(prefault_wait),
  MYSQL_SYSVAR(numa),
  MYSQL_SYSVAR(transaction_memory),
  MYSQL_SYSVAR(lock_wait_timeout),
  MYSQL_SYSVAR(snapshot_isolation),
  MYSQL_SYSVAR(missing_features),
  nullptr
};

/* Without perdura_dir a pool in the former directory counts, so that no empty one is made beside
   it. */
static bool find_directory()
{
  if (strcmp(directory, default_directory) || !perdura_has_pool(former_directory))
    return true;
  if (perdura_has_pool(default_directory))
  {
    sql_print_error("Perdura: there are pools in both %s and %s below the data directory; say which one with perdura_dir",
                    default_directory, former_directory);
    return false;
  }
  directory= former_directory;
  return true;
}

bool options(PerduraOptions *chosen)
{
  if (!find_directory())
    return false;
  *chosen= {};
  chosen->directory= directory;
  chosen->log_directory= log_directory;
  chosen->create_directory= !strcmp(directory, default_directory);
  chosen->emulate= emulate;
  chosen->require_dax= require_dax;
  chosen->journal_bytes= journal_size;
  chosen->checkpoint_log_bytes= checkpoint_log_size;
  chosen->checkpoint_interval_ms= checkpoint_interval * 1000ULL;
  chosen->accept_dirty_shutdown= accept_unsafe_shutdown;
  chosen->emulate_model= emulate_model;
  chosen->prefault= prefault;
  chosen->prefault_threads= prefault_threads;
  chosen->prefault_wait= prefault_wait;
  chosen->numa= numa;
  chosen->data_file_size= data_file_size;
  chosen->open_files= open_files;
  chosen->kept_file_bytes= kept_file_bytes;
  chosen->transaction_memory= transaction_memory;
  chosen->log_lanes= log_lanes;
  chosen->log_lane_size= log_lane_size;
  chosen->log_generations= log_generations;
  chosen->log_generations_max= log_generations_max;
  chosen->log_path= log_path_names[log_path];
  chosen->log_buffer_size= log_buffer_size;
  chosen->log_write_ahead_size= log_write_ahead_size;
  chosen->lock_wait_ms= THDVAR(nullptr, lock_wait_timeout) * 1000ULL;
  return true;
}

void hide_default_directory()
{
  ignore_db_dirs_append(default_directory + dirname_length(default_directory));
}

void hide_directory()
{
  char above[FN_REFLEN], data[FN_REFLEN], place[FN_REFLEN], parent[FN_REFLEN];
  strxnmov(above, sizeof(above) - 1, directory, "/..", NullS);
  if (my_realpath(place, directory, MYF(0)) || my_realpath(parent, above, MYF(0)) || my_realpath(data, mysql_real_data_home, MYF(0)))
    return;
  if (!strcmp(parent, data))
    ignore_db_dirs_append(place + dirname_length(place));
}

bool snapshot_isolation(THD *thd)
{
  return THDVAR(thd, snapshot_isolation);
}

bool lets_through_missing_features(THD *thd)
{
  return THDVAR(thd, missing_features) == MISSING_WARN;
}

/* The shorter of our timeout and the server's own, by which NOWAIT and WAIT n come. */
ulonglong lock_wait_ms(THD *thd)
{
  const ulonglong own= THDVAR(thd, lock_wait_timeout), server= thd->variables.lock_wait_timeout;
  return std::min(own, server) * 1000;
}

} // namespace perdura
