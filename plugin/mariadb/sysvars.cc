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

/* System variables. */

#include "perdura_plugin.h"

namespace perdura {

static char *directory;
static my_bool emulate;
static ulonglong data_file_size;
static uint log_lanes;
static ulonglong log_lane_size;
static uint log_generations;
static uint log_generations_max;
static my_bool prefault;
static uint prefault_threads;

/* Where the pool is if nothing is said: beside the server's own data, and made there. */
static char default_directory[]= "./perdura";

static constexpr ulonglong KIB= 1024, MIB= 1024 * KIB, GIB= 1024 * MIB;

static void update_prefault(THD *, st_mysql_sys_var *, void *target, const void *value)
{
  *static_cast<my_bool *>(target)= *static_cast<const my_bool *>(value);
  if (pool)
    perdura_set_prefault(pool, prefault);
}

static MYSQL_SYSVAR_STR(dir, directory, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Directory of the pool, on a file system mounted with -o dax", nullptr, nullptr, default_directory);

static MYSQL_SYSVAR_BOOL(emulate, emulate, PLUGIN_VAR_OPCMDARG | PLUGIN_VAR_READONLY,
  "Go on if the directory is not on persistent memory. Data then survive a crash of the server, not a loss of power",
  nullptr, nullptr, false);

static MYSQL_SYSVAR_ULONGLONG(data_file_size, data_file_size, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Size of a table's data files once the table has grown, in bytes", nullptr, nullptr, 64 * MIB, MIB, 64 * GIB, MIB);

static MYSQL_SYSVAR_UINT(log_lanes, log_lanes, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Lanes of the log, written in parallel. Used when the pool is created", nullptr, nullptr, 4, 1, 64, 1);

static MYSQL_SYSVAR_ULONGLONG(log_lane_size, log_lane_size, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Size of a lane of the log, in bytes. Used when the pool is created", nullptr, nullptr, 16 * MIB, 64 * KIB, 2 * GIB, 4 * KIB);

static MYSQL_SYSVAR_UINT(log_generations, log_generations, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Generations of the log to begin with. Used when the pool is created", nullptr, nullptr, 2, 2, 64, 1);

static MYSQL_SYSVAR_UINT(log_generations_max, log_generations_max, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Generations the log may grow to while transactions need them", nullptr, nullptr, 16, 2, 64, 1);

static MYSQL_SYSVAR_BOOL(prefault, prefault, PLUGIN_VAR_OPCMDARG,
  "Fault files in ahead of their use", nullptr, update_prefault, true);

static MYSQL_SYSVAR_UINT(prefault_threads, prefault_threads, PLUGIN_VAR_RQCMDARG | PLUGIN_VAR_READONLY,
  "Threads that fault files in", nullptr, nullptr, 1, 1, 64, 1);

static MYSQL_THDVAR_ULONG(lock_wait_timeout, PLUGIN_VAR_RQCMDARG,
  "How long a row lock is waited for before the statement is rolled back, in seconds", nullptr, nullptr,
  50, 0, 1024 * 1024 * 1024, 1);

st_mysql_sys_var *system_variables[]= {
  MYSQL_SYSVAR(dir),
  MYSQL_SYSVAR(emulate),
  MYSQL_SYSVAR(data_file_size),
  MYSQL_SYSVAR(log_lanes),
  MYSQL_SYSVAR(log_lane_size),
  MYSQL_SYSVAR(log_generations),
  MYSQL_SYSVAR(log_generations_max),
  MYSQL_SYSVAR(prefault),
  MYSQL_SYSVAR(prefault_threads),
  MYSQL_SYSVAR(lock_wait_timeout),
  nullptr
};

PerduraOptions options()
{
  PerduraOptions chosen= {};
  chosen.directory= directory;
  chosen.create_directory= !strcmp(directory, default_directory);
  chosen.emulate= emulate;
  chosen.prefault= prefault;
  chosen.prefault_threads= prefault_threads;
  chosen.data_file_size= data_file_size;
  chosen.log_lanes= log_lanes;
  chosen.log_lane_size= log_lane_size;
  chosen.log_generations= log_generations;
  chosen.log_generations_max= log_generations_max;
  chosen.lock_wait_ms= THDVAR(nullptr, lock_wait_timeout) * 1000ULL;
  return chosen;
}

/* The server's own timeout counts too: with it come NOWAIT and WAIT n. */
ulonglong lock_wait_ms(THD *thd)
{
  const ulonglong own= THDVAR(thd, lock_wait_timeout), server= thd->variables.lock_wait_timeout;
  return std::min(own, server) * 1000;
}

} // namespace perdura
