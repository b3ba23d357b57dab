/* perdura_server.h: Perdura's pools for the plugin of a SQL server. Made from src/server and headers of crates/capi.

   A pool keeps tables in persistent memory. The plugin describes a table by the server's own definition
   (an frm image) and by the layout of its records; it then reads and changes rows through cursors, in
   the transactions of its sessions. Programs without a SQL server want perdura_map.h instead.

   Its parts can be included alone: perdura_pool.h, perdura_session.h, perdura_rows.h, perdura_operation.h.

   To make them anew from src/server and headers/:
   PERDURA_BLESS=1 cargo test -p perdura-capi --test header
   Link with libperdura_capi.a, what `pkg-config --libs libpmem2` says, and -lpthread -ldl -lm.

   CONVENTIONS

   Outcomes. A call that can fail returns a PerduraCode. PERDURA_CODE_OK and PERDURA_CODE_END are no
   failures, all others are. Below, codes go without their prefix. "Errors" names the failures that
   belong to the call. Besides those, a call that stores to the pool may return DEVICE_FULL,
   READ_ONLY_POOL or MEDIUM, a call that reads it DAMAGED, and any call INTERNAL. A failed call stores no
   result, with two exceptions: RECORD_CHANGED from a call that reads the next row fills in the record, and DAMAGED
   may leave a part of it overwritten.

   Messages. A failed call leaves a message with its thread, for a person: what failed, where, and what
   to do. The thread's next failure replaces it. perdura_message copies it.

   Strings and bytes. A `const char *` is a string that ends with a zero byte; a `uint8_t *` comes with a
   length and has none. Texts are UTF-8. Lengths and sizes are in bytes. Tables are named by the server's
   paths, whose last two parts are the database and the table in the server's file name encoding.

   Records. A record is the server's buffer of one row, as long and laid out as its PerduraDefinition
   says. A blob's pointer in a record that was read refers into the pool: it is valid until the session's
   statement or transaction ends.

   Keys. A row has one key in each index of its table, made by the plugin. The order of the keys' bytes is
   the order of the rows in the index, and no key of an index begins another one.

   Pointers. No pointer may be null unless the call says so. Arguments are used until the call returns,
   and no longer; only the functions and contexts of PerduraWaitHooks and of perdura_set_notice_handler
   are kept.

   Ownership. The caller closes, ends or releases, once, what it opened, began or fetched. Cursors are
   closed and sessions ended before their pool is closed; definitions and reports may outlive it.

   Threads. Any number of threads may use a pool. One thread at a time uses a session, and with it the
   cursors that are passed along; it need not be the same thread always. The exceptions are
   perdura_session_kill, which may come from any thread, and perdura_commit_ordered and
   perdura_show_ordered, which come from another thread while the session's own waits.

   Callbacks return normally: no exception and no longjmp may leave them.

   Defects. No exception leaves a call. If an internal error shows that the library has a defect, the
   call returns INTERNAL and the pool fails stop: it is read, but refuses every further change with
   READ_ONLY_POOL. */

#ifndef PERDURA_SERVER_H
#define PERDURA_SERVER_H

#include "perdura_operation.h"
#include "perdura_pool.h"
#include "perdura_rows.h"
#include "perdura_session.h"

#endif
