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

/* What the files of the plugin share: the pool, sessions, errors, settings. No logic lives in the plugin that could live in
   the crates; it translates the server's calls into calls of perdura_server.h. */

#ifndef PERDURA_PLUGIN_H
#define PERDURA_PLUGIN_H

#include "server.h"
#include "perdura_server.h"

namespace perdura {

/* The pool, from the plugin's start to its end. */
extern PerduraEngine *pool;
extern handlerton *hton;

/* -- sessions (ha_perdura_txn.cc) */

/* The connection's session, begun if need be; null if that fails. */
PerduraSession *session_of(THD *thd);
/* Begins a statement in the connection's session and takes part in its transaction. Returns a handler error. */
int begin_statement(THD *thd, PerduraSession **session);
/* Whether the connection's transactions take a snapshot per statement. */
bool reads_committed(THD *thd);
/* Whether the thread is a replica's, and is applying changes of rows and not a statement. */
bool applies_row_events(THD *thd);
/* Fills in the transaction half of the handlerton. */
void set_transaction_calls(handlerton *target);

/* -- finding tables (discovery.cc) */
void set_discovery_calls(handlerton *target);

/* -- errors (errors.cc) */

/* The handler error for a failed call; marks the transaction for rollback where that is its consequence. */
int handler_error(PerduraCode code, THD *thd);
/* The same for calls that name a table instead of reading a row. */
int table_error(PerduraCode code);
/* Writes the calling thread's last message to the error log. */
void log_last_error(const char *doing);

/* Room for a message, its end included. */
constexpr size_t MESSAGE_BYTES= 512;

/* -- settings and numbers (sysvars.cc, status.cc) */

extern st_mysql_sys_var *system_variables[];
extern st_mysql_show_var status_variables[];

/* What the pool is to be opened with; `directory` lives as long as the settings. False, and an error in the log, if the settings leave
   open which pool is meant. */
bool options(PerduraOptions *chosen);
/* Releases the pool when BACKUP STAGE ends, or the connection that was in it. */
void end_backup();
/* Keeps the pool's directory, if it lies among the databases, from being taken for one. */
void hide_directory();
/* How long the connection waits for row locks, in milliseconds. */
ulonglong lock_wait_ms(THD *thd);
/* SHOW ENGINE PERDURA STATUS. */
bool show_status(handlerton *hton, THD *thd, stat_print_fn *print, ha_stat_type type);

} // namespace perdura

#endif
