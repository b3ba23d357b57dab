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
#include "sql_table.h"
#include "table.h"

#include "backup.h"
#include "my_check_opt.h"
#include "my_dir.h"
#include "myisampack.h"

#include <algorithm>
#include <mysql/plugin.h>
#include <mysql/service_thd_wait.h>

#if MYSQL_VERSION_ID < 100600 || MYSQL_VERSION_ID >= 101200
#error "Perdura is written against MariaDB 10.6 to 10.11"
#endif

/* The default of innodb_snapshot_isolation in this server, which perdura_snapshot_isolation
   follows. */
constexpr bool SNAPSHOT_ISOLATION_DEFAULT= MYSQL_VERSION_ID >= 110602;

/* Parallel replication and the binary log want to know who waits for whom. The server exports these
   without a header. The second returns whether the server will kill the holder, which applies its
   transaction again after the waiter's. */
extern "C" int thd_need_wait_reports(const MYSQL_THD waiter);
extern "C" int thd_rpl_deadlock_check(MYSQL_THD waiter, MYSQL_THD holder);
/* For engines whose directory lies among the databases. Exported without a header, too. */
bool ignore_db_dirs_append(const char *name);

/* The kind of a key. */
inline bool is_fulltext(const KEY &key)
{
  return key.flags & HA_FULLTEXT;
}
inline bool is_spatial(const KEY &key)
{
  return key.flags & HA_SPATIAL;
}

/* Outcomes of deciding a distributed transaction, as X/Open numbers them; the server has no header
   for them. */
constexpr int XA_OK= 0;
constexpr int XAER_RMERR= -3;
constexpr int XAER_NOTA= -4;

#endif
