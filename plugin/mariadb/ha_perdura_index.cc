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

/* Reading through an index. A read that locks rows compares the key of each with that of the entry
   that led to it, since the row may have changed since the statement's snapshot. Where the server
   relies on what the index promises (it has taken the equality of a ref from its condition), such a
   row is left out unless it still has what was searched for. Where the server checks its whole
   condition on each row (ranges, walks through all of the index), the row is used where it is now.
   ha_perdura_entries.cc has the reads that can do without the row. */

#include "ha_perdura.h"

using namespace perdura;

int ha_perdura::index_init(uint index, bool)
{
  choose_columns(index);
  m_search= Search::NONE;
  if (unlikely(m_lock_type >= TL_FIRST_WRITE && applies_row_events(table->in_use)))
    m_search= Search::FIRST;
  m_walk= {};
  m_entries.clear();
  m_walk.newest= table->in_use->rgi_slave;
  PerduraCode code= perdura_index_begin(m_cursor, m_session, index, m_walk.newest, &m_walk.compares_keys);
  return likely(code == PERDURA_CODE_OK) ? 0 : failed(code);
}

int ha_perdura::index_end()
{
  report_row_lock_error();
  end_in_any_order();
  perdura_index_end(m_cursor);
  return 0;
}

/* Whether the server checks its whole condition on each row: it has taken nothing from it because a
   ref promises it. */
bool ha_perdura::has_whole_condition() const
{
  const JOIN_TAB *tab= table->reginfo.join_tab;
  return !m_walk.newest && (!tab || !tab->ref.key_parts || tab->ref.key != static_cast<int>(active_index));
}

/* Whether a key has what was searched for. A search for a value or NULL comes as two, and its
   condition on that column stays with the server; the row has one of the two keys. */
bool ha_perdura::is_sought(const PerduraKey &key)
{
  if (perdura_index_is_sought(m_cursor, key.bytes, key.length))
    return true;
  const JOIN_TAB *tab= table->reginfo.join_tab;
  if (likely(!tab || tab->type != JT_REF_OR_NULL || tab->ref.key != static_cast<int>(active_index) || !tab->ref.null_ref_key))
    return false;
  uchar *is_null= tab->ref.null_ref_key;
  const uchar kept= *is_null;
  bool whole;
  *is_null= !kept;
  const PerduraKey other= m_keys->search(active_index, tab->ref.key_buff, make_prev_keypart_map(tab->ref.key_parts),
                                         Key_images::Slot::FIRST, &whole);
  *is_null= kept;
  return key.length >= other.length && !memcmp(key.bytes, other.bytes, other.length);
}

/* Whether the locked row is one for the server: it is the one that the entry leads to, or has moved
   and is used where it is. A row that has changed since the transaction's snapshot is a conflict
   only if the statement would use it as it is now. */
bool ha_perdura::is_of_entry(uchar *record, PerduraCode code)
{
  compute_key(record);
  PerduraKey key;
  m_keys->make(active_index, record, Key_images::Slot::SECOND, &key);
  if (code == PERDURA_CODE_OK)
  {
    size_t length;
    const uint8_t *bytes= perdura_index_key(m_cursor, &length);
    if (likely(length == key.length && !memcmp(bytes, key.bytes, length)))
      return true;
    m_walk.has_moved= true;
    if (m_walk.uses_moved)
      return perdura_index_moved(m_cursor, m_session, key.bytes, key.length);
    return m_walk.one_key() && !m_walk.newest && is_sought(key);
  }
  if (m_walk.one_key() && !perdura_index_is_sought(m_cursor, key.bytes, key.length))
    return false;
  return !m_condition || is_used(record);
}

/* Goes on from a read with outcome `code` to the next row for the server. */
int ha_perdura::entry_found(uchar *record, PerduraCode code)
{
  if (m_entries.stops())
    return entry_used(record, code);
  if (m_walk.compares_keys)
    while ((code == PERDURA_CODE_OK || code == PERDURA_CODE_RECORD_CHANGED) && !is_of_entry(record, code))
      code= perdura_index_pass(m_cursor, m_session, record);
  if (likely(code == PERDURA_CODE_OK))
    return row_found(record);
  return code == PERDURA_CODE_END ? HA_ERR_END_OF_FILE : failed(code);
}

int ha_perdura::seek(uchar *record, const PerduraBound &bound, PerduraStep step, bool whole)
{
  if (const int error= row_lock_error())
    return error;
  end_in_any_order();
  if (unlikely(!m_columns_chosen))
    choose_columns(active_index);
  const bool one_key= step == PERDURA_STEP_NEXT_SAME || step == PERDURA_STEP_PREVIOUS_SAME;
  const bool is_end= bound.kind == PERDURA_BOUND_KIND_NONE;
  /* A row that has the one whole key that is asked for has not moved. */
  const bool is_point= whole && one_key && m_walk.one_range;
  m_walk.uses_moved= m_walk.compares_keys && ((m_walk.ranges && !is_point) || (is_end && has_whole_condition()));
  /* Ranges in descending order the server reads by itself: those of one key each forwards, and
     others backwards. */
  if (m_walk.uses_moved && !m_walk.next_range && step == PERDURA_STEP_NEXT_SAME)
    step= PERDURA_STEP_NEXT_SAME_DESCENDING;
  m_walk.sought= step;
  choose_entries(step);
  /* Of several, one may have moved: the row that had the key at the snapshot need not be the one
     that has it now. In descending order the server asks but once for a key that does not
     repeat. */
  const bool looks_up= whole && (!m_walk.uses_moved || step == PERDURA_STEP_NEXT_SAME_DESCENDING);
  PerduraBound begin= bound;
  const PerduraBound end= range_end(step, &begin);
  return entry_found(record, perdura_index_seek(m_cursor, m_session, begin, end, step, looks_up, m_entries.stops(), record));
}

int ha_perdura::step(uchar *record, PerduraStep step)
{
  if (const int error= row_lock_error())
    return error;
  if (unlikely(!m_columns_chosen))
    choose_columns(active_index);
  return entry_found(record, perdura_index_step(m_cursor, m_session, step, record));
}

/* On which side of the key the search begins, and where it goes. False if the engine has no such
   search. */
static bool to_search(ha_rkey_function how, PerduraBoundKind *kind, PerduraStep *step)
{
  *kind= PERDURA_BOUND_KIND_INCLUDED;
  switch (how) {
  case HA_READ_KEY_EXACT:
  case HA_READ_PREFIX: *step= PERDURA_STEP_NEXT_SAME; return true;
  case HA_READ_KEY_OR_NEXT: *step= PERDURA_STEP_NEXT; return true;
  case HA_READ_AFTER_KEY:
    *kind= PERDURA_BOUND_KIND_EXCLUDED;
    *step= PERDURA_STEP_NEXT;
    return true;
  case HA_READ_KEY_OR_PREV:
  case HA_READ_PREFIX_LAST_OR_PREV: *step= PERDURA_STEP_PREVIOUS; return true;
  case HA_READ_BEFORE_KEY:
    *kind= PERDURA_BOUND_KIND_EXCLUDED;
    *step= PERDURA_STEP_PREVIOUS;
    return true;
  case HA_READ_PREFIX_LAST: *step= PERDURA_STEP_PREVIOUS_SAME; return true;
  default: return false;
  }
}

int ha_perdura::index_read_map(uchar *record, const uchar *key, key_part_map parts, ha_rkey_function how)
{
  PerduraBound bound;
  PerduraStep step;
  bool whole;
  if (!to_search(how, &bound.kind, &step))
    return HA_ERR_UNSUPPORTED;
  const PerduraKey sought= m_keys->search(active_index, key, parts, Key_images::Slot::FIRST, &whole);
  bound.bytes= sought.bytes;
  bound.length= sought.length;
  if (unlikely(m_search != Search::NONE))
    perdura_index_search(m_cursor, m_session, false);
  int error= seek(record, bound, step, whole);
  /* A replica's row may come from an earlier transaction that has not committed yet; see
     search_again(). */
  if (unlikely(error == HA_ERR_END_OF_FILE && m_search != Search::NONE))
  {
    if ((error= wait_for_prior_transactions(table->in_use)))
      return error;
    error= HA_ERR_END_OF_FILE;
    if (perdura_index_search(m_cursor, m_session, true) == PERDURA_CODE_OK)
      error= seek(record, bound, step, whole);
  }
  return error == HA_ERR_END_OF_FILE ? HA_ERR_KEY_NOT_FOUND : error;
}

int ha_perdura::index_read_last_map(uchar *record, const uchar *key, key_part_map parts)
{
  return index_read_map(record, key, parts, HA_READ_PREFIX_LAST);
}

int ha_perdura::index_next(uchar *record)
{
  if (m_any_order != Any_order::NO)
    return rnd_next(record);
  return step(record, PERDURA_STEP_NEXT);
}

int ha_perdura::index_prev(uchar *record)
{
  return step(record, PERDURA_STEP_PREVIOUS);
}

/* A search by key alone goes on behind the end of the range before: a loose scan of an index, which
   has several, looks at the row that it finds to tell whether its range has ended. */
int ha_perdura::read_range_first(const key_range *begin, const key_range *end, bool is_equal, bool sorted)
{
  m_walk.in_range= true;
  const int error= handler::read_range_first(begin, end, is_equal, sorted);
  m_walk.in_range= false;
  return error;
}

/* The next row of a range whose end the search knows: what the server does for each, but for the
   end and for measuring. */
int ha_perdura::read_range_next()
{
  if (unlikely(!in_range_check_pushed_down || eq_range || get_time_tracker() || m_psi || m_any_order != Any_order::NO))
    return handler::read_range_next();
  const int error= step(table->record[0], PERDURA_STEP_NEXT);
  increment_statistics(&SSV::ha_read_next_count);
  if (likely(!error))
  {
    update_index_statistics();
    if (unlikely(table->vfield))
      table->update_virtual_fields(this, VCOL_UPDATE_FOR_READ);
  }
  table->status= error ? STATUS_NOT_FOUND : 0;
  return error;
}

/* The engine knows what was searched for. */
int ha_perdura::index_next_same(uchar *record, const uchar *, uint)
{
  return step(record, m_walk.next_same());
}

int ha_perdura::index_first(uchar *record)
{
  if (reads_in_any_order())
  {
    const int error= begin_in_any_order();
    return unlikely(error) ? error : rnd_next(record);
  }
  return seek(record, NO_BOUND, PERDURA_STEP_NEXT, false);
}

int ha_perdura::index_last(uchar *record)
{
  return seek(record, NO_BOUND, PERDURA_STEP_PREVIOUS, false);
}
