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

/* Sessions, statements, transactions, savepoints, two-phase commit with the binary log, and the
   locks of a statement. */

#include "ha_perdura.h"

using namespace perdura;

namespace perdura {

/* -- sessions */

static PerduraSession *existing_session(THD *thd)
{
  return static_cast<PerduraSession *>(thd_get_ha_data(thd, hton));
}

/* The server holds LOCK_thd_kill and LOCK_thd_data, so this does no more than wake the session. */
static void kill_query(handlerton *, THD *thd, enum thd_kill_levels)
{
  if (PerduraSession *session= existing_session(thd))
    perdura_session_kill(session);
}

extern "C" {
/* A new statement clears an earlier kill from the session. This repeats the kill, so that a killed
   session begins no wait. */
static void wait_begins(void *thd)
{
  if (thd_kill_level(static_cast<THD *>(thd)) != THD_IS_NOT_KILLED)
    kill_query(hton, static_cast<THD *>(thd), THD_ABORT_ASAP);
  thd_wait_begin(static_cast<THD *>(thd), THD_WAIT_ROW_LOCK);
}

static void wait_ends(void *thd)
{
  thd_wait_end(static_cast<THD *>(thd));
}

/* Workers of parallel replication commit in the primary's order. A thread of the server kills a
   later worker that holds what an earlier one needs; the worker then applies its transaction
   again. */
static bool conflicts(void *waiter, void *holder)
{
  THD *thd= static_cast<THD *>(waiter);
  return thd_need_wait_reports(thd) && thd_rpl_deadlock_check(thd, static_cast<THD *>(holder));
}

/* The server gives up if the mutex of the statement is taken; whoever kills that connection takes
   it too, but briefly. */
static size_t copy_statement(void *thd, uint8_t *target, size_t bytes)
{
  constexpr int TRIES= 50;
  size_t copied= 0;
  for (int tries= 0; copied == 0 && tries < TRIES; tries++)
    copied= thd_query_safe(static_cast<THD *>(thd), reinterpret_cast<char *>(target), bytes);
  return copied;
}
}

/* Tells the session its connection and user, so that a report need not look into the connection. */
static void identify(THD *thd, PerduraSession *session)
{
  const Security_context &context= thd->main_security_ctx;
  perdura_session_identify(session, thd_get_thread_id(thd), context.user ? context.user : "system user", context.host_or_ip);
}

PerduraSession *session_of(THD *thd)
{
  PerduraSession *session= existing_session(thd);
  if (unlikely(!session))
  {
    session= perdura_session_begin(pool, PerduraWaitHooks{wait_begins, wait_ends, conflicts, copy_statement, thd});
    if (session && thread_handling > SCHEDULER_NO_THREADS)
      perdura_session_leave(session);
    if (session)
      thd_set_ha_data(thd, hton, session);
  }
  return session;
}

static int close_connection(handlerton *, THD *thd)
{
  PerduraSession *session= existing_session(thd);
  if (!session)
    return 0;
  /* Put out of reach of kill_query first: the server calls that under the mutex that guards this
     pointer. */
  thd_set_ha_data(thd, hton, nullptr);
  perdura_session_end(session);
  replica_commit_ends(thd);
  return 0;
}

/* -- statements */

/* Row events come without a statement of their own. */
bool applies_row_events(THD *thd)
{
  return thd->rgi_slave && thd_sql_command(thd) == SQLCOM_END;
}

static bool in_transaction(THD *thd)
{
  return thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN);
}

static PerduraLock lock_for(THD *thd, thr_lock_type type)
{
  if (type == TL_READ_WITH_SHARED_LOCKS || type == TL_READ_SKIP_LOCKED)
    return PERDURA_LOCK_SHARED;
  if (type < TL_FIRST_WRITE)
    return PERDURA_LOCK_NONE;
  return thd_sql_command(thd) == SQLCOM_SELECT ? PERDURA_LOCK_EXCLUSIVE : PERDURA_LOCK_WRITE;
}

/* Whether the transaction is one SELECT that neither locks rows nor calls what could change any:
   its snapshot is serializable. */
static bool is_single_read(THD *thd)
{
  LEX *lex= thd->lex;
  const int command= thd_sql_command(thd);
  if (in_transaction(thd) || (command != SQLCOM_SELECT && command != SQLCOM_HA_READ) || lex->requires_prelocking())
    return false;
  for (const TABLE_LIST *used= lex->query_tables; used; used= used->next_global)
    if (lock_for(thd, used->lock_type) != PERDURA_LOCK_NONE)
      return false;
  return true;
}

static PerduraIsolation isolation_of(THD *thd)
{
  /* A replica's thread works on the newest rows at every isolation level: isolation was the
     primary's to keep. */
  if (thd->rgi_slave)
    return PERDURA_ISOLATION_READ_COMMITTED;
  switch (thd_tx_isolation(thd)) {
  case ISO_READ_UNCOMMITTED:
  case ISO_READ_COMMITTED: return PERDURA_ISOLATION_READ_COMMITTED;
  case ISO_SERIALIZABLE: return is_single_read(thd) ? PERDURA_ISOLATION_REPEATABLE_READ : PERDURA_ISOLATION_SERIALIZABLE;
  default: return snapshot_isolation(thd) ? PERDURA_ISOLATION_REPEATABLE_READ : PERDURA_ISOLATION_CONSISTENT_READS;
  }
}

/* Where a thread serves one connection after another it is pinned for a statement alone. Chosen at
   the start. */
static PerduraCode (*statement_begin)(const PerduraSession *, PerduraIsolation, uint64_t)= perdura_statement_begin;

static PerduraCode begin_on_shared_thread(const PerduraSession *session, PerduraIsolation isolation, uint64_t wait_ms)
{
  perdura_session_enter(session);
  return perdura_statement_begin(session, isolation, wait_ms);
}

int begin_statement(THD *thd, PerduraSession **session)
{
  *session= session_of(thd);
  if (unlikely(!*session))
    return HA_ERR_OUT_OF_MEM;
  trans_register_ha(thd, false, hton, 0);
  if (in_transaction(thd))
    trans_register_ha(thd, true, hton, 0);
  if (perdura_statement_is_open(*session))
    return 0;
  identify(thd, *session);
  return handler_error(statement_begin(*session, isolation_of(thd), lock_wait_ms(thd)), thd);
}

/* -- ends of statements and transactions */

/* Whether the call ends the transaction, and not only a statement of it. */
static bool ends_transaction(THD *thd, bool all)
{
  return all || !in_transaction(thd);
}

/* Of a failed end of a transaction the server prints only the number, so this prints cause and
   remedy before it does. */
static int end_error(PerduraCode code, THD *thd)
{
  if (likely(code == PERDURA_CODE_OK))
    return 0;
  char message[MESSAGE_BYTES];
  perdura_message(reinterpret_cast<uint8_t *>(message), sizeof(message));
  my_printf_error(ER_ERROR_DURING_COMMIT, "Perdura: the transaction was not committed: %s", MYF(ME_ERROR_LOG), message);
  return handler_error(code, thd);
}

static int commit(handlerton *, THD *thd, bool all)
{
  PerduraSession *session= session_of(thd);
  if (!ends_transaction(thd, all))
  {
    /* Beside a binary log the server forgets an error that comes as UPDATE ends its reading. */
    const bool is_lost= unlikely(thd->transaction_rollback_request);
    const int error= handler_error(perdura_statement_end(session), thd);
    return likely(error || !is_lost) ? error : HA_ERR_LOCK_DEADLOCK;
  }
  const PerduraCode code= perdura_commit(session);
  replica_commit_ends(thd);
  return end_error(code, thd);
}

static int rollback(handlerton *, THD *thd, bool all)
{
  PerduraSession *session= session_of(thd);
  if (!ends_transaction(thd, all))
    return handler_error(perdura_statement_rollback(session), thd);
  const PerduraCode code= perdura_rollback(session);
  replica_commit_ends(thd);
  return handler_error(code, thd);
}

/* -- names of distributed transactions */

/* A transaction's name as the pool stores it. */
struct Name
{
  uchar bytes[sizeof(int64) + 2 * sizeof(int32) + XIDDATASIZE];
  size_t length;

  explicit Name(const XID *xid)
  {
    const size_t data= static_cast<size_t>(xid->gtrid_length + xid->bqual_length);
    int8store(bytes, static_cast<longlong>(xid->formatID));
    int4store(bytes + 8, static_cast<uint32>(xid->gtrid_length));
    int4store(bytes + 12, static_cast<uint32>(xid->bqual_length));
    memcpy(bytes + 16, xid->data, data);
    length= 16 + data;
  }
};

/* Reads a name; false if the bytes are none. */
static bool to_xid(const uint8_t *bytes, size_t length, XID *xid)
{
  if (length < 16)
    return false;
  const size_t gtrid= uint4korr(bytes + 8), bqual= uint4korr(bytes + 12);
  if (gtrid > MAXGTRIDSIZE || bqual > MAXBQUALSIZE || length != 16 + gtrid + bqual)
    return false;
  xid->set(static_cast<long>(sint8korr(bytes)), reinterpret_cast<const char *>(bytes) + 16, static_cast<long>(gtrid),
           reinterpret_cast<const char *>(bytes) + 16 + gtrid, static_cast<long>(bqual));
  return true;
}

/* -- two-phase commit */

static int prepare(handlerton *, THD *thd, bool all)
{
  PerduraSession *session= session_of(thd);
  if (!ends_transaction(thd, all))
    return handler_error(perdura_statement_end(session), thd);
  XID xid;
  thd_get_xid(thd, reinterpret_cast<MYSQL_XID *>(&xid));
  Name name(&xid);
  if (const int error= replica_commit_begins(thd))
    return error;
  const PerduraCode code= perdura_prepare(session, name.bytes, name.length);
  if (unlikely(code != PERDURA_CODE_OK))
    replica_commit_ends(thd);
  return end_error(code, thd);
}

/* Called in the binary log's order, maybe by another connection's thread. */
static void commit_ordered(handlerton *, THD *thd, bool all)
{
  PerduraSession *session= existing_session(thd);
  if (session && ends_transaction(thd, all))
  {
    perdura_commit_ordered(session);
    perdura_show_ordered(session);
  }
}

/* -- transactions without a connection */

/* While it starts, the server asks in batches, from one thread, until a batch is not full. */
struct Recovered
{
  XID *target;
  uint room, found, skip;
};

static uint recovered_so_far= 0;

extern "C" {
static void take_recovered(void *context, const uint8_t *bytes, size_t length)
{
  Recovered *batch= static_cast<Recovered *>(context);
  if (batch->skip > 0)
    batch->skip--;
  else if (batch->found < batch->room && to_xid(bytes, length, &batch->target[batch->found]))
    batch->found++;
}
}

static int recover(handlerton *, XID *list, uint room)
{
  Recovered batch= {list, room, 0, recovered_so_far};
  if (!list || !room || perdura_prepared_list(pool, take_recovered, &batch) != PERDURA_CODE_OK)
    return 0;
  recovered_so_far= batch.found < room ? 0 : recovered_so_far + batch.found;
  return static_cast<int>(batch.found);
}

static int decide(XID *xid, bool commit)
{
  Name name(xid);
  switch (perdura_prepared_decide(pool, name.bytes, name.length, commit)) {
  case PERDURA_CODE_OK: return XA_OK;
  case PERDURA_CODE_NOT_FOUND: return XAER_NOTA;
  default:
    log_last_error(commit ? "committing a prepared transaction" : "rolling back a prepared transaction");
    return XAER_RMERR;
  }
}

static int commit_by_xid(handlerton *, XID *xid)
{
  return decide(xid, true);
}

static int rollback_by_xid(handlerton *, XID *xid)
{
  return decide(xid, false);
}

/* -- savepoints: in the eight bytes that the server keeps for each lies its name in the session */

static int savepoint_set(handlerton *, THD *thd, void *kept)
{
  uint64_t id= 0;
  int error= handler_error(perdura_savepoint(session_of(thd), &id), thd);
  memcpy(kept, &id, sizeof(id));
  return error;
}

static int savepoint_rollback(handlerton *, THD *thd, void *kept)
{
  uint64_t id;
  memcpy(&id, kept, sizeof(id));
  return handler_error(perdura_rollback_to_savepoint(session_of(thd), id), thd);
}

/* A transaction that has written keeps its row locks, and so must keep the metadata locks of their
   tables. One that has locked tables as a whole must find them as they were. */
static bool savepoint_rollback_can_release_mdl(handlerton *, THD *thd)
{
  return perdura_keeps_no_table(session_of(thd));
}

static int savepoint_release(handlerton *, THD *thd, void *kept)
{
  uint64_t id;
  memcpy(&id, kept, sizeof(id));
  return handler_error(perdura_release_savepoint(session_of(thd), id), thd);
}

static int start_consistent_snapshot(handlerton *, THD *thd)
{
  if (thd_tx_isolation(thd) != ISO_REPEATABLE_READ)
  {
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_UNSUPPORTED,
                        "Perdura: WITH CONSISTENT SNAPSHOT is ignored, except at REPEATABLE READ");
    return 0;
  }
  PerduraSession *session;
  if (int error= begin_statement(thd, &session))
    return error;
  trans_register_ha(thd, true, hton, 0);
  return handler_error(perdura_take_snapshot(session), thd);
}

/* -- threads that serve one connection after another */

static int commit_on_shared_thread(handlerton *called, THD *thd, bool all)
{
  const int error= commit(called, thd, all);
  perdura_session_leave(existing_session(thd));
  return error;
}

static int rollback_on_shared_thread(handlerton *called, THD *thd, bool all)
{
  const int error= rollback(called, thd, all);
  perdura_session_leave(existing_session(thd));
  return error;
}

/* The thread that prepares for the binary log commits next, and stays where it is. */
static int prepare_on_shared_thread(handlerton *called, THD *thd, bool all)
{
  const bool commits= ends_transaction(thd, all) && thd_sql_command(thd) != SQLCOM_XA_PREPARE;
  const int error= prepare(called, thd, all);
  if (error || !commits)
    perdura_session_leave(existing_session(thd));
  return error;
}

static void share_threads(handlerton *target)
{
  statement_begin= begin_on_shared_thread;
  target->commit= of_participant<commit_on_shared_thread>;
  target->rollback= of_participant<rollback_on_shared_thread>;
  target->prepare= of_participant<prepare_on_shared_thread>;
}

void set_transaction_calls(handlerton *target)
{
  target->close_connection= of_participant<close_connection>;
  target->kill_query= kill_query;
  target->commit= of_participant<commit>;
  target->rollback= of_participant<rollback>;
  target->prepare= of_participant<prepare>;
  target->commit_ordered= of_participant<commit_ordered>;
  target->recover= of_participant<recover>;
  target->commit_by_xid= of_participant<commit_by_xid>;
  target->rollback_by_xid= of_participant<rollback_by_xid>;
  target->savepoint_offset= sizeof(uint64_t);
  target->savepoint_set= of_participant<savepoint_set>;
  target->savepoint_rollback= of_participant<savepoint_rollback>;
  target->savepoint_rollback_can_release_mdl= of_participant<savepoint_rollback_can_release_mdl>;
  target->savepoint_release= of_participant<savepoint_release>;
  target->start_consistent_snapshot= of_participant<start_consistent_snapshot>;
  if (thread_handling > SCHEDULER_NO_THREADS)
    share_threads(target);
}

} // namespace perdura

/* -- a table's part in a statement */

int ha_perdura::enter_statement(THD *thd, thr_lock_type lock_type)
{
  if (int error= begin_statement(thd, &m_session))
    return error;
  const bool skip_locked= lock_type == TL_READ_SKIP_LOCKED || lock_type == TL_WRITE_SKIP_LOCKED;
  const PerduraLock lock= lock_for(thd, lock_type);
  m_locks= lock != PERDURA_LOCK_NONE;
  m_may_sample= true;
  if (lock == PERDURA_LOCK_WRITE)
    refresh_references();
  PerduraCode code= perdura_cursor_prepare(m_cursor, lock, skip_locked);
  if (unlikely(m_may_owe_limit) && code == PERDURA_CODE_OK && lock == PERDURA_LOCK_WRITE)
    code= keep_limit();
  return handler_error(code, thd);
}

int ha_perdura::external_lock(THD *thd, int lock_type)
{
  if (lock_type == F_UNLCK)
    return 0;
  /* Of the copy that an ALTER TABLE fills it does not say how it locks the rows. */
  if (lock_type == F_WRLCK)
    refresh_references();
  return enter_statement(thd, m_lock_type);
}

/* Called instead of external_lock under LOCK TABLES, and in stored functions and triggers. */
int ha_perdura::start_stmt(THD *thd, thr_lock_type lock_type)
{
  m_lock_type= lock_type;
  return enter_statement(thd, lock_type);
}

THR_LOCK_DATA **ha_perdura::store_lock(THD *, THR_LOCK_DATA **to, thr_lock_type lock_type)
{
  if (lock_type != TL_IGNORE)
    m_lock_type= lock_type;
  return to;
}

void ha_perdura::unlock_row()
{
  perdura_unlock(m_cursor, m_session);
}

void ha_perdura::choose_row_locks()
{
  perdura_cursor_semi_consistent(m_cursor, m_semi_consistent || m_condition);
}

/* With `yes`, the server is going to call was_semi_consistent_read for each row that it has found
   to match. */
void ha_perdura::try_semi_consistent_read(bool yes)
{
  m_semi_consistent= yes;
  m_condition= nullptr;
  choose_row_locks();
}

/* The row matches, and the server is going to change it. Locks it, which may wait. True if the
   server must read on before it does: the next read gives the row out as it is now, locked, or
   returns the error of the lock. Of a row that it would leave as it is the server says nothing
   more, so a row that was read from the snapshot is locked here. The next row that a sorted
   statement reads may be another partition's, which knows nothing of the error: there the change of
   this row returns it. */
bool ha_perdura::was_semi_consistent_read()
{
  if (!m_semi_consistent)
    return false;
  m_row_lock= perdura_lock_semi_consistent(m_cursor, m_session);
  if (likely(m_row_lock == PERDURA_CODE_OK))
    m_row_lock= perdura_keep(m_cursor, m_session);
  if (likely(m_row_lock == PERDURA_CODE_OK))
    return false;
  return m_row_lock == PERDURA_CODE_END || !table->s->partition_info_str;
}

/* The error of locking the row that was read last, which the next read or change returns; 0 if
   there is none. */
int ha_perdura::row_lock_error()
{
  if (likely(m_row_lock == PERDURA_CODE_OK || m_row_lock == PERDURA_CODE_END))
    return 0;
  const PerduraCode code= m_row_lock;
  m_row_lock= PERDURA_CODE_OK;
  return failed(code);
}

/* The server ends its reading without another read, for it knew how many rows there were: the error
   of a row lock is due, unless another partition's has ended the statement. */
void ha_perdura::report_row_lock_error()
{
  if (unlikely(m_row_lock != PERDURA_CODE_OK) && table->in_use->is_error())
    m_row_lock= PERDURA_CODE_OK;
  if (const int error= row_lock_error())
    print_error(error, MYF(0));
}
