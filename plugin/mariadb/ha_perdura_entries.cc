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

/* Reads that take the columns of the key from the entry: all that a statement wants, or those of a
   condition that decides whether the row is read. The entries are those that the snapshot sees, so
   nothing is asked of the row. Where the key does not tell the columns, and where rows are locked,
   the row is read as ever. */

#include "ha_perdura.h"

using namespace perdura;

/* Rows of up to so many bytes, as they are stored, are read faster by a scan of the table than
   their keys by one of an index: those of 393 bytes in half the time. */
static constexpr ulong SHORT_ROW= 512;

static constexpr uint8_t NO_COLUMNS[(MAX_FIELDS + 7) / 8]= {};

/* Takes the server's condition on the columns of an index. A statement that locks rows has it
   checked on the locked row. A condition on a primary key of one column, an integer, is taken if it
   is a range: that bounds the search, and nothing is checked at each entry. Otherwise the ranges of
   the search mostly say it all. */
Item *ha_perdura::idx_cond_push(uint index, Item *condition)
{
  if (m_locks || m_lock_type >= TL_FIRST_WRITE)
    return condition;
  m_pushed= {};
  if (index == table->s->primary_key && table->key_info[index].user_defined_key_parts == 1 &&
      !m_pushed.take(table, index, m_keys.get(), condition))
    return condition;
  pushed_idx_cond= condition;
  pushed_idx_cond_keyno= index;
  m_columns_chosen= false;
  return nullptr;
}

/* Where a search for the rows of a range ends, of which `begin` is the bound that the server has
   set; none if it does not end, or rows are locked and the server compares their keys. Where it
   ends with the server's range, the server need not compare the key of each row. */
PerduraBound ha_perdura::range_end(PerduraStep step, PerduraBound *begin)
{
  PerduraBound end= NO_BOUND;
  in_range_check_pushed_down= step == PERDURA_STEP_NEXT && reads_plainly() && m_walk.in_range && end_range;
  if (in_range_check_pushed_down)
    end= m_keys->end_of(active_index, *end_range);
  if (is_bounded(step))
    m_pushed.narrow(begin, &end);
  return end;
}

/* Settles, for a search that begins, what the entries are used for. A condition that is a range is
   checked where the search does not go through one. The server reads backwards only without a
   condition. */
void ha_perdura::choose_entries(PerduraStep step)
{
  m_entries.clear();
  if (unlikely(keyread == active_index && reads_plainly()))
  {
    m_entries.parts= m_keys->parts_of(active_index, table->read_set);
    m_entries.covers= !(m_entries.parts & ~m_keys->restorable(active_index));
  }
  if (unlikely(has_condition() && !is_bounded(step)))
  {
    m_entries.checks= true;
    m_entries.parts= m_keys->restorable(active_index);
  }
}

/* Whether an item has a value of one row outside the sums, that of the first, or may have one in a
   subquery. */
static bool names_a_row(const Item *item)
{
  return item->with_field() || item->with_subquery();
}

/* Whether a sum is the same in whatever order the rows come, and has no effects or warnings, whose
   order would show: it is one of columns as they are. */
static bool is_exact(Item_sum *sum)
{
  for (uint i= 0; i < sum->get_arg_count(); i++)
    if (sum->get_arg(i)->real_item()->type() != Item::FIELD_ITEM && !sum->get_arg(i)->basic_const_item())
      return false;
  switch (sum->sum_func()) {
  case Item_sum::COUNT_FUNC: return true;
  case Item_sum::SUM_FUNC:
  case Item_sum::AVG_FUNC: return sum->result_type() != REAL_RESULT;
  default: return false;
  }
}

/* Whether the result does not show in which order the rows of the table come: counts and exact sums
   over all rows of the one table of a SELECT without WHERE and GROUP BY. The server has settled how
   it reads the table; before that, it may look for the least value. */
static bool is_sum_of_all(const TABLE *table)
{
  const JOIN_TAB *tab= table->reginfo.join_tab;
  if (!tab || tab->type != JT_NEXT || tab->loosescan_match_tab || !tab->join)
    return false;
  JOIN *join= tab->join;
  if (!join->implicit_grouping || join->table_count != 1 || join->conds || join->order || join->group_list || !join->sum_funcs ||
      table->in_use->lex->limit_rows_examined || (join->having && names_a_row(join->having)))
    return false;
  List_iterator_fast<Item> items(join->all_fields);
  while (const Item *item= items++)
    if (names_a_row(item))
      return false;
  for (Item_sum **sum= join->sum_funcs; *sum; sum++)
    if (!is_exact(*sum))
      return false;
  return true;
}

/* Whether all rows are read and their order does not show, as where no column of them is used; for
   a key read the server marks all columns of the key, and `used_fields` counts those that the
   statement names. The scan of the table is faster, unless the rows are long or columns would have
   to be computed, but where the server knows a key that covers the columns it takes that without
   asking for costs. */
bool ha_perdura::reads_in_any_order()
{
  if (likely(keyread != active_index) || thd_sql_command(table->in_use) != SQLCOM_SELECT)
    return false;
  if (table->used_fields && (stats.mean_rec_length > SHORT_ROW || m_keys->has_virtual(active_index) || !is_sum_of_all(table)))
    return false;
  choose_entries(PERDURA_STEP_NEXT);
  return m_entries.covers && !m_entries.checks && !end_range;
}

/* Begins the scan of the table in place of the index. A partitioned table compares the keys of the
   partitions' rows. */
int ha_perdura::begin_in_any_order()
{
  if (table->used_fields || table->s->partition_info_str)
  {
    m_any_order= Any_order::COLUMNS;
    choose_columns(active_index);
  }
  else
  {
    m_any_order= Any_order::NO_COLUMNS;
    perdura_cursor_set_columns(m_cursor, NO_COLUMNS);
    m_columns_chosen= true;
  }
  const PerduraCode code= perdura_scan_begin(m_cursor, m_session);
  return likely(code == PERDURA_CODE_OK) ? 0 : failed(code);
}

void ha_perdura::end_in_any_order()
{
  if (likely(m_any_order == Any_order::NO))
    return;
  m_any_order= Any_order::NO;
  m_columns_chosen= false;
  perdura_scan_end(m_cursor);
}

/* Evaluates the condition on the columns of the key. The search ends with the range: the server
   would compare columns that the key does not tell. */
check_result_t ha_perdura::check_entry()
{
  key_range *end= end_range;
  end_range= nullptr;
  const check_result_t found= handler_index_cond_check(this);
  end_range= end;
  return found;
}

/* Goes on from an entry, or the outcome `code` of looking for it, to the next that the server
   uses. */
int ha_perdura::entry_used(uchar *record, PerduraCode code)
{
  for (; code == PERDURA_CODE_OK; code= perdura_index_pass(m_cursor, m_session, record))
  {
    size_t length;
    const uint8_t *key= perdura_index_key(m_cursor, &length);
    const Key_images::Told told= m_keys->restore(active_index, m_entries.parts, key, length, record);
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
    if (m_entries.checks && code == PERDURA_CODE_OK)
      switch (check_entry()) {
      case CHECK_POS: break;
      case CHECK_NEG: continue;
      case CHECK_OUT_OF_RANGE: return HA_ERR_END_OF_FILE;
      case CHECK_ABORTED_BY_USER: return HA_ERR_ABORTED_BY_USER;
      default: return HA_ERR_GENERIC;
      }
    if (!m_entries.covers && !has_row && (code= perdura_index_row(m_cursor, m_session, record)) == PERDURA_CODE_OK)
      row_found(record);
    if (likely(code == PERDURA_CODE_OK))
      return 0;
    if (code != PERDURA_CODE_END)
      break;
  }
  return code == PERDURA_CODE_END ? HA_ERR_END_OF_FILE : failed(code);
}
