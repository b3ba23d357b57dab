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

/* The engine names its counters; this has room for more than there are. */
constexpr size_t COUNTERS_MAX= 64;

/* The server calls this, and then reads the list, under its mutex for status variables. */
static int read_counters(MYSQL_THD, SHOW_VAR *target, void *, system_status_var *, enum_var_type)
{
  static PerduraCounter counters[COUNTERS_MAX];
  static SHOW_VAR list[COUNTERS_MAX + 1];
  const size_t count= std::min(perdura_counters(pool, counters, COUNTERS_MAX), COUNTERS_MAX);
  for (size_t number= 0; number < count; number++)
    list[number]= {counters[number].name, reinterpret_cast<char *>(&counters[number].value), SHOW_ULONGLONG};
  list[count]= {nullptr, nullptr, SHOW_ULONGLONG};
  target->type= SHOW_ARRAY;
  target->value= list;
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
