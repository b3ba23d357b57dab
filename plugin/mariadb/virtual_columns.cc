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
/* Drops the warnings that computing a stored row's columns raises: they were raised when the row
   was written. */
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

bool Virtual_columns::are_in(const TABLE *table)
{
  for (Field **field= table->vfield; field && *field; field++)
    if (!(*field)->stored_in_db())
      return true;
  return false;
}

Virtual_columns::Virtual_columns(TABLE *table) : m_table(table), m_chosen(table)
{
  for (Field **each= table->vfield; *each; each++)
  {
    Field *field= *each;
    if (field->stored_in_db())
      continue;
    m_columns.push_back({field, Column_set(table)});
    find_bases(&m_columns.back());
  }
  m_of_indexes.reserve(table->s->keys);
  for (uint index= 0; index < table->s->keys; index++)
  {
    m_of_indexes.emplace_back(table);
    add_key(table->key_info[index], m_of_indexes.back().bits());
  }
}

/* The server marks in the set that is read what an expression needs, with the defaults of columns
   that it names. */
void Virtual_columns::find_bases(Column *column) const
{
  MY_BITMAP *const read= m_table->read_set;
  m_table->read_set= column->bases.bits();
  column->field->vcol_info->expr->walk(&Item::register_field_in_read_map, true, nullptr);
  m_table->read_set= read;
  add_bases(column->bases.bits());
}

void Virtual_columns::add_key(const KEY &key, MY_BITMAP *columns) const
{
  for (uint part= 0; part < key.user_defined_key_parts; part++)
    bitmap_set_bit(columns, key.key_part[part].fieldnr - 1);
  add_bases(columns);
}

/* Adds the columns that the virtual ones of a set are computed from. Returns whether it has virtual
   ones. */
bool Virtual_columns::add_bases(MY_BITMAP *columns) const
{
  bool has_virtual= false;
  for (const Column &column : m_columns)
    if (bitmap_is_set(columns, column.field->field_index))
    {
      has_virtual= true;
      bitmap_union(columns, column.bases.bits());
    }
  return has_virtual;
}

const MY_BITMAP *Virtual_columns::choose(const MY_BITMAP *wanted, uint index)
{
  bitmap_copy(m_chosen.bits(), wanted);
  if (index != MAX_KEY)
    bitmap_union(m_chosen.bits(), m_of_indexes[index].bits());
  m_chose_virtual= add_bases(m_chosen.bits());
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
