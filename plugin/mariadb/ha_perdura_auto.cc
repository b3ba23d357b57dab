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

/* AUTO_INCREMENT: the values come from the table's counter in the pool, which never gives one out
   twice. */

#include "ha_perdura.h"

using namespace perdura;

void ha_perdura::get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first, ulonglong *count)
{
  uint64_t reserved, found;
  /* The server first wants a value for each row of the statement, though it does not need one for
     each. With rows of those to come it goes on where it says, as with InnoDB. */
  const ulonglong from= m_values_wanted ? *first : 0;
  if (!m_values_wanted)
    m_values_wanted= wanted;
  const ulonglong most= table->next_number_field->get_max_int_value();
  const PerduraCounting counting= {offset, increment};
  if (perdura_counter_reserve(pool, m_session, m_cursor, counting, m_values_wanted, from, most, &found, &reserved) != PERDURA_CODE_OK)
  {
    *first= ULONGLONG_MAX;
    *count= 0;
    return;
  }
  *first= found;
  /* The server notices by itself that a value is beyond the column's last. */
  *count= reserved ? reserved : 1;
  if (reserved)
    m_counting= counting;
}

/* Has the counter pass the value of a row, whichever way the row comes: the server has other ways
   than the statements that ask for values, such as row events, partitions that exchange rows, and
   columns that an UPDATE changes. As InnoDB's, it goes on in the way in which this handler has last
   given out values. Values beyond those that the server counts to, as negative ones seem to be, are
   left alone; so is 0 where no row is inserted, which every counter is above. */
int ha_perdura::pass_auto_increment(const uchar *record, bool inserts)
{
  Field *field= table->found_next_number_field;
  if (!field)
    return 0;
  const my_ptrdiff_t from_first= record - table->record[0];
  field->move_field_offset(from_first);
  const ulonglong value= field->val_uint();
  field->move_field_offset(-from_first);
  if (value > field->get_max_int_value() || (value == 0 && !inserts))
    return 0;
  PerduraCode code= perdura_counter_pass(pool, m_session, m_cursor, m_counting, value, inserts);
  return likely(code == PERDURA_CODE_OK) ? 0 : failed(code);
}

/* When a table is first opened since the pool was, compares the counter with the rows: earlier
   builds let it fall behind values that rows got in some ways. The greatest value is that of the
   key at the end of the index that begins with the column. As pass_auto_increment() it leaves alone
   what lies beyond the values that the server counts to, so it looks below those. If the index is
   damaged, whoever inserts is told. */
void ha_perdura::check_auto_increment()
{
  m_may_owe_limit= true;
  Field *field= table->found_next_number_field;
  const uint index= table->s->next_number_index;
  const ulonglong most= field->get_max_int_value();
  std::vector<uchar> record(table->s->reclength);
  const my_ptrdiff_t there= record.data() - table->record[0];
  uchar key[PERDURA_KEY_BYTES_MAX];
  size_t length= 0;
  bool whole;
  field->move_field_offset(there);
  field->store(static_cast<longlong>(most), true);
  const PerduraKey bound= m_keys->search(index, field->ptr, 1, Key_images::Slot::FIRST, &whole);
  const bool descends= table->key_info[index].key_part->key_part_flag & HA_REVERSE_SORT;
  const PerduraCode code= perdura_counter_check(pool, m_cursor, index, bound.bytes, bound.length, descends, key, &length);
  ulonglong value= 0;
  if (code == PERDURA_CODE_OK && length && m_keys->restore(index, 1, key, length, record.data()) == Key_images::Told::ALL)
    value= field->val_uint();
  field->move_field_offset(-there);
  if (code != PERDURA_CODE_OK)
    return;
  uint64_t from, to;
  if (perdura_counter_catch_up(pool, m_cursor, value > most ? 0 : value, &from, &to) == PERDURA_CODE_OK && to > from)
    sql_print_warning("Perdura: table %s: the AUTO_INCREMENT counter was at %llu, though rows have values up to %llu; it goes on at %llu",
                      m_path.c_str(), static_cast<ulonglong>(from), value, static_cast<ulonglong>(to));
}

/* Stores the limit of a counter that has gone on above rows, before a statement that writes the
   table. */
PerduraCode ha_perdura::keep_limit()
{
  const PerduraCode code= perdura_counter_keep(pool, m_session, m_cursor);
  m_may_owe_limit= code != PERDURA_CODE_OK;
  return code == PERDURA_CODE_END ? PERDURA_CODE_OK : code;
}

int ha_perdura::reset_auto_increment(ulonglong value)
{
  return table_error(perdura_counter_set(pool, m_session, m_cursor, std::max<ulonglong>(value, 1)));
}

/* For SHOW CREATE TABLE, and for a table that takes this one's place. */
void ha_perdura::update_create_info(HA_CREATE_INFO *given)
{
  if (given->used_fields & HA_CREATE_USED_AUTO || !table->found_next_number_field)
    return;
  info(HA_STATUS_AUTO);
  given->auto_increment_value= stats.auto_increment_value;
}
