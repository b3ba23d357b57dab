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

/* Reading: the full scan, rows by their position, and which rows a locking statement locks. */

#include "ha_perdura.h"

#include <vector>

int ha_perdura::rnd_init(bool scan)
{
  choose_columns(MAX_KEY);
  m_search= Search::NONE;
  if (!scan)
    return 0;
  const bool searches= m_lock_type >= TL_FIRST_WRITE && perdura::applies_row_events(table->in_use);
  if (unlikely(searches))
    m_search= Search::FIRST;
  PerduraCode code= searches ? perdura_search_begin(m_cursor, m_session) : perdura_scan_begin(m_cursor, m_session);
  return code == PERDURA_CODE_OK ? 0 : failed(code);
}

/* A replica's search has not found its row, which an earlier transaction that has not committed yet
   may bring. After those the primary's order guarantees the row, so this waits for them and
   searches once more. If a transaction that waits here holds a lock that an earlier one needs, the
   server kills it and applies it again. */
int ha_perdura::search_again(uchar *record)
{
  m_search= Search::LAST;
  if (const int error= perdura::wait_for_prior_transactions(table->in_use))
    return error;
  PerduraCode code= perdura_search_again(m_cursor, m_session);
  if (code == PERDURA_CODE_END)
    return HA_ERR_END_OF_FILE;
  return code == PERDURA_CODE_OK ? rnd_next(record) : failed(code);
}

int ha_perdura::rnd_next(uchar *record)
{
  if (unlikely(!m_columns_chosen))
    choose_columns(active_index);
  PerduraCode code= m_row_lock;
  m_row_lock= PERDURA_CODE_OK;
  if (likely(code == PERDURA_CODE_OK || code == PERDURA_CODE_END))
    code= perdura_scan_next(m_cursor, m_session, record);
  if (m_condition)
    return next_to_lock(record, code);
  if (likely(code == PERDURA_CODE_OK))
  {
    if (unlikely(m_checksums))
      leave_out_generated(record);
    return row_found(record);
  }
  if (code != PERDURA_CODE_END)
    return failed(code);
  return unlikely(m_search == Search::FIRST) ? search_again(record) : HA_ERR_END_OF_FILE;
}

/* For CHECKSUM TABLE the server does not want the generated columns, also those that are stored,
   but sums up what the record has for them, and their NULL bits. Those of the row would make the
   sum differ from that of other engines, which leave them as in a new record. */
void ha_perdura::leave_out_generated(uchar *record) const
{
  for (Field **generated= table->vfield; *generated; generated++)
  {
    const Field *field= *generated;
    if (!field->null_ptr || bitmap_is_set(table->read_set, field->field_index))
      continue;
    uchar &nulls= record[field->null_ptr - table->record[0]];
    const uchar as_new= table->s->default_values[field->null_ptr - table->record[0]];
    nulls= static_cast<uchar>((nulls & ~field->null_bit) | (as_new & field->null_bit));
  }
}

int ha_perdura::calculate_checksum()
{
  m_checksums= table->vfield != nullptr;
  const int error= handler::calculate_checksum();
  m_checksums= false;
  return error;
}

/* Holds back the warnings that evaluating a condition raises. Errors pass. */
class Held_warnings : public Internal_error_handler
{
public:
  bool handle_condition(THD *, uint number, const char *, Sql_condition::enum_warning_level *level, const char *text,
                        Sql_condition **) override
  {
    if (*level == Sql_condition::WARN_LEVEL_ERROR)
      return false;
    m_held.push_back({number, *level, text});
    return true;
  }

  bool empty() const { return m_held.empty(); }

  void give(THD *thd) const
  {
    for (const Held &held : m_held)
      push_warning(thd, held.level, held.number, held.text.c_str());
  }

private:
  struct Held
  {
    uint number;
    Sql_condition::enum_warning_level level;
    std::string text;
  };
  std::vector<Held> m_held;
};

static bool look_at(const COND *condition, THD *thd, Held_warnings *warnings)
{
  thd->push_internal_handler(warnings);
  const bool satisfied= const_cast<COND *>(condition)->val_int() != 0;
  thd->pop_internal_handler();
  return satisfied;
}

/* Whether the server is going to use the row: evaluates the server's condition before the row is
   locked. The server raises the warnings when it evaluates the condition itself, except those that
   only a first evaluation raises (a constant converted once). */
bool ha_perdura::is_used(const uchar *record)
{
  if (record != table->record[0])
    return true;
  THD *thd= table->in_use;
  Held_warnings first, second;
  const bool used= look_at(m_condition, thd, &first);
  if (unlikely(!first.empty()))
  {
    look_at(m_condition, thd, &second);
    if (second.empty())
      first.give(thd);
  }
  return used;
}

/* Goes on from a read with outcome `code` to the next row for the server. It locks a row that the
   server is going to use, and reads it again if it has changed. A row that changed after the
   transaction's snapshot is a conflict only if the server is going to use it. */
int ha_perdura::next_to_lock(uchar *record, PerduraCode code)
{
  for (;; code= perdura_scan_next(m_cursor, m_session, record))
  {
    if (code == PERDURA_CODE_OK)
    {
      if (!is_used(record))
        return 0;
      code= perdura_lock_semi_consistent(m_cursor, m_session);
      if (code == PERDURA_CODE_END)
        continue;
      return code == PERDURA_CODE_OK ? 0 : failed(code);
    }
    if (code != PERDURA_CODE_RECORD_CHANGED || is_used(record))
      return code == PERDURA_CODE_END ? HA_ERR_END_OF_FILE : failed(code);
    perdura_unlock(m_cursor, m_session);
  }
}

/* Whether the condition can be evaluated once more: with the same value, without any effect, and in
   little time. */
static bool is_repeatable(COND *condition, LEX *lex)
{
  if (condition->used_tables() & RAND_TABLE_BIT || condition->with_subquery() || condition->is_expensive() ||
      condition->walk(&Item::limit_index_condition_pushdown_processor, false, nullptr))
    return false;
  for (const TABLE_LIST *used= lex->query_tables; used; used= used->next_global)
    if (used->sequence)
      return false;
  return true;
}

/* The server offers its condition on the rows of this table, and still checks it itself. It tells
   us which rows to lock. */
const COND *ha_perdura::cond_push(const COND *condition)
{
  const bool usable= m_locks && !m_semi_consistent && !table->vfield &&
                     is_repeatable(const_cast<COND *>(condition), table->in_use->lex);
  m_condition= usable ? condition : nullptr;
  choose_row_locks();
  return condition;
}

int ha_perdura::rnd_pos(uchar *record, uchar *position)
{
  if (const int error= row_lock_error())
    return error;
  if (unlikely(!m_columns_chosen))
    choose_columns(active_index);
  uint64_t row;
  memcpy(&row, position, sizeof(row));
  PerduraCode code= perdura_read(m_cursor, m_session, row, record);
  if (likely(code == PERDURA_CODE_OK))
    return row_found(record);
  return code == PERDURA_CODE_END ? HA_ERR_RECORD_DELETED : failed(code);
}

int ha_perdura::rnd_end()
{
  report_row_lock_error();
  perdura_scan_end(m_cursor);
  return 0;
}

void ha_perdura::position(const uchar *)
{
  const uint64_t row= perdura_position(m_cursor);
  memcpy(ref, &row, sizeof(row));
}

/* By the row's number, in whose order an index has the rows with the same key. */
int ha_perdura::cmp_ref(const uchar *left, const uchar *right)
{
  constexpr uint64_t NUMBER= (1ULL << 48) - 1;
  uint64_t first, second;
  memcpy(&first, left, sizeof(first));
  memcpy(&second, right, sizeof(second));
  first&= NUMBER;
  second&= NUMBER;
  return first < second ? -1 : first > second;
}

/* The server does not say how the clone, which takes part in the same statement, is to lock. For a
   partition it may name the table. */
handler *ha_perdura::clone(const char *, MEM_ROOT *root)
{
  handler *made= handler::clone(m_path.c_str(), root);
  if (made)
    static_cast<ha_perdura *>(made)->m_lock_type= m_lock_type;
  return made;
}

/* A HANDLER ... READ goes on from the row that the one before has read, and is a statement of its
   own. */
void ha_perdura::init_table_handle_for_HANDLER()
{
  m_columns_chosen= false;
  perdura_cursor_go_on(m_cursor);
}

/* The statement has changed the columns that it reads. */
void ha_perdura::column_bitmaps_signal()
{
  handler::column_bitmaps_signal();
  m_columns_chosen= false;
}

int ha_perdura::reset()
{
  m_mrr.dsmrr_close();
  perdura_cursor_reset(m_cursor);
  m_columns_chosen= false;
  m_semi_consistent= false;
  m_search= Search::NONE;
  m_row_lock= PERDURA_CODE_OK;
  m_condition= nullptr;
  m_values_wanted= 0;
  m_may_sample= false;
  return 0;
}
