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

/* Declarations that the plugin's files share: the pool, sessions, errors, settings. The plugin
   translates the server's calls into calls of perdura_server.h; logic that can live in the crates
   lives there. */

#ifndef PERDURA_PLUGIN_H
#define PERDURA_PLUGIN_H

#include "server.h"
#include "perdura_server.h"

namespace perdura {

/* The pool, open from the plugin's start to its end. */
inline PerduraEngine *pool= nullptr;
inline handlerton *hton= nullptr;

/* -- sessions (ha_perdura_txn.cc) */

/* The connection's session, begun if it has none. Null if that fails. */
PerduraSession *session_of(THD *thd);
/* Begins a statement in the connection's session, and registers the engine with the connection's
   transaction. Returns a handler error. */
int begin_statement(THD *thd, PerduraSession **session);
/* Whether the thread is a replica's and applies row events, as opposed to statements. */
bool applies_row_events(THD *thd);
/* Fills in the handlerton's calls for transactions. */
void set_transaction_calls(handlerton *target);

/* -- the order of a replica's commits (replica_order.cc) */

/* From its PREPARE to its end a transaction of a parallel replica is in its commit. The first
   returns a handler error as below. */
int replica_commit_begins(THD *thd);
void replica_commit_ends(const THD *thd);
/* Waits until the transactions before that of a replica's worker are visible here. Returns a
   handler error: the worker was killed, or an earlier transaction failed. */
int wait_for_prior_transactions(THD *thd);

/* -- finding tables (discovery.cc) */

/* Fills in the handlerton's calls for discovery. */
void set_discovery_calls(handlerton *target);

/* -- dropping tables (ha_perdura_ddl.cc) */

/* Drops the table at a path, unless foreign keys of others refer to it. Returns a handler error. */
int drop_table(const char *path);

/* -- errors (errors.cc) */

/* The handler error for a failed call. Marks the transaction for rollback if the failure demands
   that. */
int handler_error(PerduraCode code, THD *thd);
/* The same for calls on a table by its name: NOT_FOUND then means the table. */
int table_error(PerduraCode code);
/* Writes the message of the thread's last failed call to the error log. */
void log_last_error(const char *doing);

/* Room for a message and its zero byte. */
constexpr size_t MESSAGE_BYTES= 512;

/* -- settings and numbers (sysvars.cc, status.cc) */

extern st_mysql_sys_var *system_variables[];
extern st_mysql_show_var status_variables[];

/* The options to open the pool with; `directory` lives as long as the settings. False, with an
   error in the log, if the settings do not tell which of two pools to open. */
bool options(PerduraOptions *chosen);
/* Releases the pool when BACKUP STAGE ends, or the connection that was in it ends. */
void end_backup();
/* Hides the pool's directory from the server if it lies among the databases, so that it is not
   taken for one. */
void hide_directory();
/* Hides the default directory, also while the pool lies elsewhere or cannot be opened: else each
   search for databases complains of it in the error log. */
void hide_default_directory();
/* How long the connection waits for a lock, in milliseconds. */
ulonglong lock_wait_ms(THD *thd);
/* Whether the connection's transactions at REPEATABLE READ are bound to their snapshot when they
   change or lock rows. */
bool snapshot_isolation(THD *thd);
/* Whether the connection's tables are made although the engine lacks a feature of a key. */
bool lets_through_missing_features(THD *thd);
/* SHOW ENGINE PERDURA STATUS. */
bool show_status(handlerton *hton, THD *thd, stat_print_fn *print, ha_stat_type type);

/* -- tables of information_schema (information_schema.cc) */

/* Each describes one of them to the server, as the start of a plugin. */
int start_transactions(void *target);
int start_locks(void *target);
int start_lock_waits(void *target);
int start_space(void *target);
int start_indexes(void *target);

} // namespace perdura

#endif
