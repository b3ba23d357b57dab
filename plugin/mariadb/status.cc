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

/* Status variables, and SHOW ENGINE PERDURA STATUS. */

#include "perdura_plugin.h"

namespace perdura {

static PerduraCounters counters;

#define COUNTER(name) {#name, reinterpret_cast<char *>(&counters.name), SHOW_ULONGLONG}

static SHOW_VAR counter_list[]= {
  COUNTER(sessions_open),
  COUNTER(sessions_begun),
  COUNTER(transactions),
  COUNTER(commits),
  COUNTER(rollbacks),
  COUNTER(rows_not_read),
  COUNTER(moved_rows),
  COUNTER(fences),
  COUNTER(lines_flushed),
  COUNTER(bytes_written),
  COUNTER(bytes_written_past_cache),
  COUNTER(prefault_queued_bytes),
  COUNTER(prefault_done_bytes),
  COUNTER(prefault_failures),
  COUNTER(notices),
  COUNTER(lock_waits),
  COUNTER(lock_timeouts),
  COUNTER(deadlocks),
  COUNTER(locks_held),
  COUNTER(locks_waited_for),
  COUNTER(generation_switches),
  COUNTER(durable_csn),
  COUNTER(visible_csn),
  COUNTER(stored_csn),
  COUNTER(checkpoint_csn),
  COUNTER(snapshots),
  COUNTER(purge_lag),
  COUNTER(data_bytes),
  COUNTER(free_bytes),
  COUNTER(open_files),
  COUNTER(failed),
  {nullptr, nullptr, SHOW_ULONGLONG}
};

static_assert(sizeof(PerduraCounters) == (array_elements(counter_list) - 1) * sizeof(uint64_t), "every counter is shown");

/* The server calls this, and then reads the list, under its mutex for status variables. */
static int read_counters(MYSQL_THD, SHOW_VAR *target, void *, system_status_var *, enum_var_type)
{
  if (pool)
    perdura_counters(pool, &counters);
  target->type= SHOW_ARRAY;
  target->value= counter_list;
  return 0;
}

SHOW_VAR status_variables[]= {
  SHOW_FUNC_ENTRY("Perdura", read_counters),
  {nullptr, nullptr, SHOW_ULONGLONG}
};

bool show_status(handlerton *, THD *thd, stat_print_fn *print, ha_stat_type type)
{
  if (type != HA_ENGINE_STATUS)
    return false;
  PerduraReport *report= perdura_report(pool);
  size_t bytes;
  const uint8_t *text= perdura_report_text(report, &bytes);
  bool failed= print(thd, STRING_WITH_LEN("Perdura"), STRING_WITH_LEN(""), reinterpret_cast<const char *>(text), bytes);
  perdura_report_release(report);
  return failed;
}

} // namespace perdura
