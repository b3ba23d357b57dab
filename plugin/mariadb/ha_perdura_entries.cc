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

/* Reads that take the columns of the key from the entry: all that a statement wants, or those of a condition that decides whether the
   row is read. The entries are those that the snapshot sees, so nothing is asked of the row. Where the key does not tell the columns,
   and where rows are locked, the row is read as ever. */

#include "ha_perdura.h"

using namespace perdura;

/* Takes the server's condition on the columns of an index. A statement that locks rows has it checked on the locked row. */
Item *ha_perdura::idx_cond_push(uint index, Item *condition)
{
  if (m_locks || m_lock_type >= TL_FIRST_WRITE)
    return condition;
  pushed_idx_cond= condition;
  pushed_idx_cond_keyno= index;
  m_columns_chosen= false;
  return nullptr;
}

/* Settles, for a search that begins, what the entries are used for. The server reads backwards only without a condition. */
void ha_perdura::choose_entries(PerduraStep step)
{
  const bool may_stop= !m_compares_keys && m_lock_type < TL_FIRST_WRITE;
  m_covers= m_checks= false;
  if (unlikely(may_stop && keyread == active_index))
  {
    m_parts= m_keys->parts_of(active_index, table->read_set);
    m_covers= !(m_parts & ~m_keys->restorable(active_index));
  }
  if (unlikely(pushed_idx_cond && pushed_idx_cond_keyno == active_index))
  {
    m_checks= true;
    m_parts= m_keys->restorable(active_index);
    m_end.clear();
    if (end_range && (step == PERDURA_STEP_NEXT || step == PERDURA_STEP_NEXT_SAME))
    {
      bool whole;
      const PerduraKey key= m_keys->search(active_index, end_range->key, end_range->keypart_map, Key_images::Slot::SECOND, &whole);
      m_end.assign(key.bytes, key.bytes + key.length);
      m_end_excluded= end_range->flag == HA_READ_BEFORE_KEY;
    }
  }
  const bool stops= m_covers || m_checks;
  if (stops != m_stops)
    perdura_index_stop_at_entries(m_cursor, stops);
  m_stops= stops;
}

/* Whether all rows are read and no column of them, in which case their order does not show. The scan of the table is faster. For a key
   read the server marks all columns of the key; `used_fields` counts those that the statement names. */
bool ha_perdura::only_counts()
{
  if (likely(keyread != active_index) || table->used_fields || thd_sql_command(table->in_use) != SQLCOM_SELECT)
    return false;
  choose_entries(PERDURA_STEP_NEXT);
  return m_covers && !m_checks && !end_range;
}

/* Whether a key lies behind the range that is read. The images of the columns compare as the columns do. */
bool ha_perdura::is_beyond_end(const uchar *key, size_t length) const
{
  if (m_end.empty())
    return false;
  const int order= memcmp(key, m_end.data(), std::min(length, m_end.size()));
  return order > 0 || (order == 0 && m_end_excluded && length >= m_end.size());
}

/* Evaluates the condition on the columns of the key. The end of the range was checked: the server would compare columns that the key
   does not tell. */
check_result_t ha_perdura::check_entry()
{
  key_range *end= end_range;
  end_range= nullptr;
  const check_result_t found= handler_index_cond_check(this);
  end_range= end;
  return found;
}

/* Goes on from an entry, or the outcome `code` of looking for it, to the next that the server uses. */
int ha_perdura::entry_used(uchar *record, PerduraCode code)
{
  for (; code == PERDURA_CODE_OK; code= perdura_index_pass(m_cursor, m_session, record))
  {
    size_t length;
    const uint8_t *key= perdura_index_key(m_cursor, &length);
    if (m_checks && is_beyond_end(key, length))
      return HA_ERR_END_OF_FILE;
    const Key_images::Told told= m_keys->restore(active_index, m_parts, key, length, record);
    if (unlikely(told == Key_images::Told::DAMAGED))
      return failed(perdura_index_damaged(m_cursor, m_session));
    bool has_row= false;
    if (unlikely(told == Key_images::Told::NOT_ALL))
    {
      has_row= true;
      code= perdura_index_row(m_cursor, m_session, record);
      if (code == PERDURA_CODE_OK)
        compute_key(record);
    }
    if (m_checks && code == PERDURA_CODE_OK)
      switch (check_entry()) {
      case CHECK_POS: break;
      case CHECK_NEG: continue;
      case CHECK_OUT_OF_RANGE: return HA_ERR_END_OF_FILE;
      case CHECK_ABORTED_BY_USER: return HA_ERR_ABORTED_BY_USER;
      default: return HA_ERR_GENERIC;
      }
    if (!m_covers && !has_row && (code= perdura_index_row(m_cursor, m_session, record)) == PERDURA_CODE_OK)
      row_found(record);
    if (likely(code == PERDURA_CODE_OK))
      return 0;
    if (code != PERDURA_CODE_END)
      break;
  }
  return code == PERDURA_CODE_END ? HA_ERR_END_OF_FILE : failed(code);
}
