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


#include "virtual_columns.h"

namespace perdura {

namespace {
/* Drops the warnings that computing a stored row's columns raises: they were raised when the row was
   written. Errors pass. */
class Dropped_warnings : public Internal_error_handler
{
public:
  explicit Dropped_warnings(THD *thd) : m_thd(thd), m_strictness(thd, false) { thd->push_internal_handler(this); }
  ~Dropped_warnings() override { m_thd->pop_internal_handler(); }

  bool handle_condition(THD *, uint, const char *, Sql_condition::enum_warning_level *level, const char *, Sql_condition **) override
  {
    return *level != Sql_condition::WARN_LEVEL_ERROR;
  }

private:
  THD *m_thd;
  Abort_on_warning_instant_set m_strictness;
};
} // namespace

Column_set::Column_set(const TABLE *table) : m_words(bitmap_buffer_size(table->s->fields) / sizeof(my_bitmap_map))
{
  my_bitmap_init(&m_bits, m_words.data(), table->s->fields);
}

Virtual_columns::Virtual_columns(TABLE *table) : m_table(table), m_chosen(table)
{
  m_of_indexes.reserve(table->s->keys);
  for (uint index= 0; index < table->s->keys; index++)
  {
    m_of_indexes.emplace_back(table);
    add_key(table->key_info[index], m_of_indexes.back().bits());
  }
}

void Virtual_columns::add_key(const KEY &key, MY_BITMAP *columns) const
{
  for (uint part= 0; part < key.user_defined_key_parts; part++)
    bitmap_set_bit(columns, key.key_part[part].fieldnr - 1);
  add_bases(columns);
}

/* Adds the columns that the virtual ones of a set are computed from. Each is computed from columns
   before it, so that one pass from the last to the first finds all. */
void Virtual_columns::add_bases(MY_BITMAP *columns) const
{
  uint count= 0;
  while (m_table->vfield[count])
    count++;
  while (count-- > 0)
  {
    const Field *field= m_table->vfield[count];
    if (!field->stored_in_db() && bitmap_is_set(columns, field->field_index))
      field->vcol_info->expr->walk(&Item::register_field_in_bitmap, true, columns);
  }
}

const MY_BITMAP *Virtual_columns::choose(const MY_BITMAP *wanted, uint index)
{
  bitmap_copy(m_chosen.bits(), wanted);
  add_bases(m_chosen.bits());
  if (index != MAX_KEY)
    bitmap_union(m_chosen.bits(), m_of_indexes[index].bits());
  return m_chosen.bits();
}

/* The server leaves them out where it has asked for the columns of the key alone. */
void Virtual_columns::compute_fields(handler *file, MY_BITMAP *columns) const
{
  MY_BITMAP *const read= m_table->read_set;
  const uint keyread= file->keyread;
  m_table->read_set= columns;
  file->keyread= MAX_KEY;
  m_table->update_virtual_fields(file, VCOL_UPDATE_FOR_READ);
  file->keyread= keyread;
  m_table->read_set= read;
}

void Virtual_columns::compute(handler *file, MY_BITMAP *columns, uchar *record) const
{
  const Dropped_warnings dropped(m_table->in_use);
  uchar *const usual= m_table->record[0];
  if (unlikely(record != usual))
    m_table->move_fields(m_table->field, record, usual);
  compute_fields(file, columns);
  if (unlikely(record != usual))
    m_table->move_fields(m_table->field, usual, record);
}

} // namespace perdura
