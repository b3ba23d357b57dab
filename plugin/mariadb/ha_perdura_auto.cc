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

/* AUTO_INCREMENT: the values come from the table's counter in the pool, which never gives one out twice. */

#include "ha_perdura.h"

using namespace perdura;

void ha_perdura::get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first, ulonglong *count)
{
  uint64_t reserved, found;
  /* What the server wants first is a value for each row of the statement, though it does not need one for each. With rows of those to
     come it goes on where it says, as with InnoDB. */
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
   left alone. */
int ha_perdura::pass_auto_increment(const uchar *record, bool inserts)
{
  Field *field= table->found_next_number_field;
  if (!field)
    return 0;
  const my_ptrdiff_t from_first= record - table->record[0];
  field->move_field_offset(from_first);
  const ulonglong value= field->val_uint();
  field->move_field_offset(-from_first);
  if (value > field->get_max_int_value())
    return 0;
  PerduraCode code= perdura_counter_pass(pool, m_session, m_cursor, m_counting, value, inserts);
  return likely(code == PERDURA_CODE_OK) ? 0 : failed(code);
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
