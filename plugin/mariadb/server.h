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

/* The server's headers, in the order that they need, and everything that depends on the server's
   version. */

#ifndef PERDURA_MARIADB_SERVER_H
#define PERDURA_MARIADB_SERVER_H

#define MYSQL_SERVER 1

#include "my_global.h"
#include "sql_class.h"
#include "handler.h"
#include "discover.h"
#include "field.h"
#include "log.h"
#include "sql_acl.h"
#include "sql_i_s.h"
#include "sql_plugin.h"
#include "sql_select.h"
#include "sql_show.h"
#include "sql_table.h"
#include "table.h"

#include "backup.h"
#include "my_check_opt.h"
#include "my_dir.h"
#include "myisampack.h"

#include <algorithm>
#include <mysql/plugin.h>
#include <mysql/service_thd_wait.h>

#if MYSQL_VERSION_ID < 100600 || (MYSQL_VERSION_ID >= 101200 && MYSQL_VERSION_ID < 110800) || MYSQL_VERSION_ID >= 110900
#error "Perdura is written against MariaDB 10.6 to 10.11, and 11.8"
#endif

/* Changes that the server has: costs in milliseconds, with constants of each engine (11.0), names
   compared by classes of their own (11.5), engines apart from their part in transactions (11.7). */
#define SERVER_HAS_COSTS (MYSQL_VERSION_ID >= 110000)
#define SERVER_HAS_NAME_CLASSES (MYSQL_VERSION_ID >= 110500)
#define SERVER_HAS_PARTICIPANTS (MYSQL_VERSION_ID >= 110700)

/* The default of innodb_snapshot_isolation in this server, which perdura_snapshot_isolation
   follows. */
constexpr bool SNAPSHOT_ISOLATION_DEFAULT= MYSQL_VERSION_ID >= 110602;

/* Parallel replication and the binary log want to know who waits for whom. The server exports these
   without a header. The second returns whether the server will kill the holder, which applies its
   transaction again after the waiter's. */
extern "C" int thd_need_wait_reports(const MYSQL_THD waiter);
extern "C" int thd_rpl_deadlock_check(MYSQL_THD waiter, MYSQL_THD holder);
/* The table that the server has opened for an engine's cascades; exported without a header. */
TABLE *find_fk_open_table(THD *thd, const char *db, size_t db_length, const char *table, size_t table_length);
/* Whether the replica passes some errors by; declared in a header of all of replication. */
extern bool use_slave_mask;
/* For engines whose directory lies among the databases. Exported without a header, too. */
bool ignore_db_dirs_append(const char *name);

#if SERVER_HAS_PARTICIPANTS
template <auto call> struct Without_engine;
template <typename Result, typename... Arguments, Result (*call)(handlerton *, Arguments...)> struct Without_engine<call>
{
  static Result made(Arguments... arguments) { return call(nullptr, arguments...); }
};
/* A call of the engine for its part in transactions, as the server makes it. */
template <auto call> constexpr auto of_participant= &Without_engine<call>::made;
#else
template <auto call> constexpr auto of_participant= call;
#endif

#if SERVER_HAS_NAME_CLASSES
/* As in the servers before: 0 if two names differ at most in the case of letters. */
inline int my_strcasecmp(CHARSET_INFO *, const char *left, const char *right)
{
  return !Lex_ident_ci(LEX_CSTRING{left, strlen(left)}).streq(LEX_CSTRING{right, strlen(right)});
}
typedef const LEX_CSTRING Database_name;

inline const char *dropped_name(const Alter_drop &drop)
{
  return drop.name.str;
}

/* Begins a definition of a table that is one thread's. */
inline void begin_table_share(THD *thd, TABLE_SHARE *share, const char *key, uint length, const char *name, const char *path)
{
  init_tmp_table_share(thd, share, key, length, name, path, true);
}
#else
typedef LEX_CSTRING Database_name;

inline const char *dropped_name(const Alter_drop &drop)
{
  return drop.name;
}

inline void begin_table_share(THD *thd, TABLE_SHARE *share, const char *key, uint length, const char *name, const char *path)
{
  init_tmp_table_share(thd, share, key, length, name, path);
}
#endif

/* A list of words that ends with a null pointer, as the choices of a variable. */
#ifndef CREATE_TYPELIB_FOR
#define CREATE_TYPELIB_FOR(words) {array_elements(words) - 1, "", words, nullptr}
#endif

/* The kind of a key. */
#if SERVER_HAS_PARTICIPANTS
inline bool is_fulltext(const KEY &key)
{
  return key.algorithm == HA_KEY_ALG_FULLTEXT;
}
inline bool is_spatial(const KEY &key)
{
  return key.algorithm == HA_KEY_ALG_RTREE;
}
#else
inline bool is_fulltext(const KEY &key)
{
  return key.flags & HA_FULLTEXT;
}
inline bool is_spatial(const KEY &key)
{
  return key.flags & HA_SPATIAL;
}
#endif

/* The server's questions about costs. The engine reckons in parts of what a row takes that is found
   by a unique key. */
class Server_handler : public handler
{
public:
  using handler::handler;

  virtual double cost_of_scan()= 0;
  virtual double cost_of_rows(uint index, uint ranges, ha_rows rows)= 0;
  virtual double cost_of_entries(uint index, uint ranges, ha_rows rows)= 0;
  /* Of the lock that the statement takes of each row it reads. */
  virtual double lock_cost() const= 0;
  /* Of rows that ranges of a condition have, beyond cost_of_rows(); counts before 11.0. */
  virtual double further_range_cost(uint index, ha_rows rows) const= 0;
  /* Whether the server's way to read several ranges is used, which is given here. */
  virtual DsMrr_impl *way_of_ranges()= 0;

#if SERVER_HAS_COSTS
  /* The server adds its constants, those of set_costs(), for each row and search. */
  IO_AND_CPU_COST scan_time() override { return locks(stats.records); }
  IO_AND_CPU_COST keyread_time(uint, ulong, ha_rows rows, ulonglong) override { return locks(rows); }
  IO_AND_CPU_COST rnd_pos_time(ha_rows) override { return {0, 0}; }
  ha_rows multi_range_read_info_const(uint index, RANGE_SEQ_IF *ranges, void *first, uint count, uint *buffer_size, uint *flags,
                                      ha_rows limit, Cost_estimate *cost) override
  {
    DsMrr_impl *way= way_of_ranges();
    return way ? way->dsmrr_info_const(index, ranges, first, count, buffer_size, flags, limit, cost)
               : handler::multi_range_read_info_const(index, ranges, first, count, buffer_size, flags, limit, cost);
  }
  static void set_costs(handlerton *target) { target->update_optimizer_costs= update_costs; }

private:
  static constexpr double MILLISECONDS= 0.0013;

  IO_AND_CPU_COST locks(ha_rows rows) const { return {0, MILLISECONDS * lock_cost() * static_cast<double>(rows)}; }

  /* Measured beside InnoDB (docs/compatibility.md, "Costs with 11.8"). What is not set here is the
     server's own. */
  static void update_costs(OPTIMIZER_COSTS *costs)
  {
    costs->row_next_find_cost= 0.000014;
    costs->row_copy_cost= 0.00002;
    costs->key_next_find_cost= 0.0001;
    costs->row_lookup_cost= 0.00067;
    costs->key_lookup_cost= 0.0011;
  }
#else
  double scan_time() override { return cost_of_scan(); }
  double read_time(uint index, uint ranges, ha_rows rows) override { return cost_of_rows(index, ranges, rows); }
  double keyread_time(uint index, uint ranges, ha_rows rows) override { return cost_of_entries(index, ranges, rows); }
  ha_rows multi_range_read_info_const(uint index, RANGE_SEQ_IF *ranges, void *first, uint count, uint *buffer_size, uint *flags,
                                      Cost_estimate *cost) override
  {
    DsMrr_impl *way= way_of_ranges();
    const ha_rows rows= way ? way->dsmrr_info_const(index, ranges, first, count, buffer_size, flags, cost)
                            : handler::multi_range_read_info_const(index, ranges, first, count, buffer_size, flags, cost);
    if (rows != HA_POS_ERROR && !(*flags & HA_MRR_INDEX_ONLY))
      cost->add_io(further_range_cost(index, rows), 1);
    return rows;
  }
  static void set_costs(handlerton *) {}
#endif
};

/* Outcomes of deciding a distributed transaction, as X/Open numbers them; the server has no header
   for them. */
constexpr int XA_OK= 0;
constexpr int XAER_RMERR= -3;
constexpr int XAER_NOTA= -4;

#endif
