/* perdura_session.h: sessions, their statements and transactions.
   A part of perdura_server.h, which states the conventions. */

#ifndef PERDURA_SESSION_H
#define PERDURA_SESSION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "perdura_pool.h"

#ifdef __cplusplus
extern "C" {
#endif

/* -- Sessions */

// A connection's session. It runs one transaction after the other.
typedef struct PerduraSession PerduraSession;

// How a session tells the server of its waits, and asks about them. Each function may be null.
typedef struct PerduraWaitHooks {
  // Called before the session's thread waits, so that a thread pool can run another.
  void (*begin)(void *context);
  // Called after the wait.
  void (*end)(void *context);
  // Called before a wait for each session that holds the row or is ahead in its queue, with the contexts of
  // the waiter and of that session, whose transaction cannot end meanwhile. Returns whether the server will
  // kill that session: then the wait for it is no deadlock. May call nothing of this library: the call comes
  // under internal locks.
  bool (*conflict)(void *waiter, void *holder);
  // Copies the statement that the session executes to `target`, cut to `bytes` bytes, and returns how many it
  // copied. Called from any thread, under internal locks as above.
  size_t (*statement)(void *context, uint8_t *target, size_t bytes);
  // Passed to every function.
  void *context;
} PerduraWaitHooks;

// Begins a session. Null only after a defect. The calling thread is pinned to the NUMA node of the pool's
// memory, if the pool was opened so, until perdura_session_leave or the session's end.
PerduraSession *perdura_session_begin(const PerduraEngine *engine, PerduraWaitHooks hooks);

// Ends a session. Rolls back its transaction, unless that is prepared: then it stays prepared.
void perdura_session_end(PerduraSession *session);

// Pins the calling thread to the NUMA node of the pool's memory, as perdura_session_begin did with the thread
// that began the session, which is let off. For servers whose threads serve one connection after another.
void perdura_session_enter(const PerduraSession *session);
// Lets the thread off that is pinned for the session: it has the processors back that it had before.
void perdura_session_leave(const PerduraSession *session);

// Names the session in reports: `connection` is the server's number of it, `user` and `host` are texts that
// end with a NUL; null is an empty one. To be called again when one of them changes, with no transaction
// active.
void perdura_session_identify(const PerduraSession *session, uint64_t connection, const char *user,
    const char *host);

// Interrupts the session's wait for a row lock, if it waits. From any thread.
void perdura_session_kill(const PerduraSession *session);

/* -- Statements and transactions */

// Isolation levels: the changes of others that the statements of a transaction see.
typedef enum PerduraIsolation {
  // Each statement sees what was committed when it began.
  PERDURA_ISOLATION_READ_COMMITTED = 0,
  // Reads that lock nothing see what was committed at the transaction's first; other statements work on the
  // newest rows.
  PERDURA_ISOLATION_CONSISTENT_READS,
  // All statements see what was committed at the transaction's first consistent read. To change or lock a row
  // that somebody has changed since is RECORD_CHANGED.
  PERDURA_ISOLATION_REPEATABLE_READ,
  // As if the transactions ran one after the other: cursors lock the tables that they read.
  PERDURA_ISOLATION_SERIALIZABLE,
} PerduraIsolation;

// Begins a statement, and a transaction of this isolation if none is active. The statement waits up to
// `lock_wait_ms` milliseconds for a lock. Does nothing within a statement.
PerduraCode perdura_statement_begin(const PerduraSession *session, PerduraIsolation isolation,
    uint64_t lock_wait_ms);

// Whether the session is within a statement.
bool perdura_statement_is_open(const PerduraSession *session);

// Ends a statement of a transaction that goes on. Blobs read by it are no longer valid. Does nothing outside
// a statement.
PerduraCode perdura_statement_end(const PerduraSession *session);

// Rolls back what the statement wrote, and ends it. Does nothing outside a statement.
PerduraCode perdura_statement_rollback(const PerduraSession *session);

// Takes the transaction's snapshot now, so that it agrees with the binary log's position. Does nothing at
// READ COMMITTED and SERIALIZABLE.
PerduraCode perdura_take_snapshot(const PerduraSession *session);

// Whether the transaction has written nothing so far, and locked no table.
bool perdura_keeps_no_table(const PerduraSession *session);

// Commits the transaction: durable and visible on return. On failure it is rolled back.
//
// Errors: LOG_FULL, DEVICE_FULL, READ_ONLY_POOL.
PerduraCode perdura_commit(const PerduraSession *session);

// Rolls the transaction back.
//
// Errors: NOT_SUPPORTED after perdura_commit_ordered: the commit is durable.
PerduraCode perdura_rollback(const PerduraSession *session);

/* -- Savepoints */

// Sets a savepoint; `id` gets its name. Savepoints end with the transaction.
PerduraCode perdura_savepoint(const PerduraSession *session, uint64_t *id);

// Rolls back what was written since a savepoint. The savepoint stays, later ones go.
//
// Errors: NOT_FOUND if the transaction has no such savepoint; nothing is rolled back.
PerduraCode perdura_rollback_to_savepoint(const PerduraSession *session, uint64_t id);

// Releases one savepoint; later ones stay, since a server that sets a name again releases only the old
// savepoint. Memory kept for it goes with the transaction.
//
// Errors: NOT_FOUND if the transaction has no such savepoint.
PerduraCode perdura_release_savepoint(const PerduraSession *session, uint64_t id);

/* -- Two-phase commit */

// Prepares the transaction under the name `xid`: from here on it outlives its session and the server, until
// it is committed or rolled back.
//
// Errors: LOG_FULL, DEVICE_FULL, READ_ONLY_POOL; the transaction is rolled back.
PerduraCode perdura_prepare(const PerduraSession *session, const uint8_t *xid, size_t bytes);

// Gives a prepared transaction its place in the order of commits. To be called by the binary log's group
// leader, in the binary log's order, while the session's own thread waits; perdura_commit then ends the
// commit.
void perdura_commit_ordered(const PerduraSession *session);

// Makes an ordered transaction visible, if all commits before it are durable. If the leader calls it for each
// transaction of a group, their own threads need not wait for each other.
void perdura_show_ordered(const PerduraSession *session);

// Calls `found` with the name of each prepared transaction that no session holds.
PerduraCode perdura_prepared_list(const PerduraEngine *engine,
    void (*found)(void *context, const uint8_t *xid, size_t bytes), void *context);

// Commits or rolls back the prepared transaction `xid`, which no session holds: after a restart, or after its
// connection ended.
//
// Errors: NOT_FOUND.
PerduraCode perdura_prepared_decide(const PerduraEngine *engine, const uint8_t *xid, size_t bytes,
    bool commit);

#ifdef __cplusplus
}
#endif

#endif
