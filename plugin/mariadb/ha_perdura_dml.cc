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

/* INSERT, UPDATE, DELETE: one call into the crates for each row, with the keys that the row has,
   gets or loses. ha_perdura_foreign.cc has those of rows that others refer to. */

#include "ha_perdura.h"

using namespace perdura;

/* Makes a record's key in each index. False if one is too long. */
bool ha_perdura::make_keys(const uchar *record, PerduraKey *keys)
{
  for (uint index= 0; index < m_keys->count(); index++)
    if (unlikely(!m_keys->make(index, record, Key_images::Slot::FIRST, &keys[index])))
    {
      m_refused_index= index;
      return false;
    }
  return true;
}

/* Finds the indexes in which the two records of a row have different keys. False if a new key is
   too long. */
bool ha_perdura::find_changes(const uchar *before, const uchar *after, PerduraKeyChange *changes, size_t *count)
{
  *count= 0;
  for (uint index= 0; index < m_keys->count(); index++)
  {
    if (m_keys->is_same(index, before, after))
      continue;
    PerduraKeyChange *change= &changes[*count];
    change->index= index;
    m_keys->make(index, before, Key_images::Slot::FIRST, &change->before);
    if (unlikely(!m_keys->make(index, after, Key_images::Slot::SECOND, &change->after)))
    {
      m_refused_index= index;
      return false;
    }
    const bool is_change= change->before.length != change->after.length ||
                          memcmp(change->before.bytes, change->after.bytes, change->after.length);
    *count+= is_change;
  }
  return true;
}

/* Whether the server goes on with a row that a key has refused, or reports it only after others.
   InnoDB's counter has passed it by then. */
static bool passes_refused(THD *thd)
{
  switch (thd_sql_command(thd)) {
  case SQLCOM_REPLACE:
  case SQLCOM_REPLACE_SELECT:
  case SQLCOM_INSERT_SELECT: return true;
  case SQLCOM_LOAD: return thd->lex->duplicates == DUP_REPLACE;
  default: return false;
  }
}

int ha_perdura::write_row(const uchar *record)
{
  const bool counts= table->next_number_field && record == table->record[0];
  if (counts)
    if (int error= update_auto_increment())
      return error;
  PerduraKey keys[MAX_KEY];
  if (unlikely(!make_keys(record, keys)))
    return HA_ERR_INDEX_COL_TOO_LONG;
  if (unlikely(m_foreign != nullptr))
    if (int error= check_parents(nullptr, record, nullptr))
      return error == HA_ERR_NO_REFERENCED_ROW ? refuse_row(record, keys) : error;
  PerduraCode code= perdura_insert(m_cursor, m_session, record, keys);
  if (m_values_wanted)
    m_values_wanted--;
  if (likely(code == PERDURA_CODE_OK))
  {
    /* The counter has passed what it has given out, but not what the session has set, nor what the
       server has made of a value given out: with an increment it rounds up to the offset. */
    const bool is_passed= counts && insert_id_for_cur_row && m_counting.increment == 1 &&
      !table->in_use->auto_inc_intervals_forced.nb_elements();
    return is_passed ? 0 : pass_auto_increment(record, true);
  }
  const int error= failed(code);
  if (error == HA_ERR_FOUND_DUPP_KEY && counts && passes_refused(table->in_use))
    if (int other= pass_auto_increment(record, true))
      return other;
  return error;
}

/* Whether the table's two records agree in all stored columns. The first written one mostly
   tells. */
static bool is_same_row(const TABLE *table)
{
  const auto is_same= [table](Field *field) {
    if (!field->stored_in_db())
      return true;
    const bool is_null= field->is_null();
    return is_null == field->is_null_in_record(table->record[1]) && (is_null || !field->cmp_binary_offset(table->s->rec_buff_length));
  };
  const auto is_kept= [&](Field *field) { return !bitmap_is_set(table->write_set, field->field_index) || is_same(field); };
  Field **end= table->field + table->s->fields;
  return std::all_of(table->field, end, is_kept) && std::all_of(table->field, end, is_same);
}

int ha_perdura::update_alone(const uchar *before, const uchar *after)
{
  /* A row that stays as it is counts as such. The server compares bytes behind a NULL too, and of a
     versioned table or for REPLACE it does not compare. */
  if (before == table->record[1] && after == table->record[0] && unlikely(is_same_row(table)))
  {
    const PerduraCode kept= perdura_keep(m_cursor, m_session);
    return likely(kept == PERDURA_CODE_OK) ? HA_ERR_RECORD_IS_THE_SAME : failed(kept);
  }
  PerduraKeyChange changes[MAX_KEY];
  size_t count;
  if (unlikely(!find_changes(before, after, changes, &count)))
    return HA_ERR_INDEX_COL_TOO_LONG;
  PerduraCode code= perdura_update(m_cursor, m_session, after, changes, count);
  if (unlikely(code != PERDURA_CODE_OK))
    return failed(code);
  const Field *counted= table->found_next_number_field;
  return counted && bitmap_is_set(table->write_set, counted->field_index) ? pass_auto_increment(after, false) : 0;
}

int ha_perdura::delete_alone(const uchar *record)
{
  PerduraKey keys[MAX_KEY];
  make_keys(record, keys);
  PerduraCode code= perdura_delete(m_cursor, m_session, keys);
  return likely(code == PERDURA_CODE_OK) ? 0 : failed(code);
}

/* REPLACE and ON DUPLICATE KEY UPDATE go on with the row that has the key, which they lock. IGNORE
   leaves it alone. */
int ha_perdura::extra(ha_extra_function operation)
{
  switch (operation) {
  case HA_EXTRA_IGNORE_DUP_KEY:
  {
    THD *thd= table->in_use;
    perdura_cursor_locks_duplicates(m_cursor, thd->lex->duplicates != DUP_ERROR || applies_row_events(thd));
    break;
  }
  case HA_EXTRA_KEYREAD:
  case HA_EXTRA_NO_KEYREAD: m_columns_chosen= false; break;
  case HA_EXTRA_NO_IGNORE_DUP_KEY: perdura_cursor_locks_duplicates(m_cursor, false); break;
  default: break;
  }
  return 0;
}
