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

/* Finds the other ends of foreign keys, and makes the keys by which rows are looked up there. */

#include "foreign_links.h"

namespace perdura {

Link::~Link()
{
  if (m_rows)
    perdura_reference_close(m_rows);
}

bool Link::find_other(const TABLE *table)
{
  if (likely(m_is_known))
    return m_rows != nullptr;
  m_is_known= true;
  m_form.assign(own_columns().size(), Key_images::Form());
  Table_share other_table(table->in_use, other());
  TABLE_SHARE *share= other_table.share();
  if (!share)
    return false;
  m_index= index_of(share, share->key_info, other_columns());
  if (m_index == NO_KEY)
    return false;
  const KEY &key= share->key_info[m_index];
  for (size_t part= 0; part < other_columns().size(); part++)
  {
    const Field *field= share->field[key.key_part[part].fieldnr - 1];
    const uint own= column_of(table->s, own_columns()[part]);
    if (own == UINT_MAX || !is_comparable(field, table->field[own]))
      return false;
    m_columns.push_back({own, key.key_part[part].fieldnr - 1U});
    m_form[part]= {field->real_maybe_null(), (key.key_part[part].key_part_flag & HA_REVERSE_SORT) != 0};
  }
  m_is_whole= key.user_defined_key_parts == other_columns().size();
  if (perdura_reference_open(pool, other().path().c_str(), &m_rows) != PERDURA_CODE_OK)
    m_rows= nullptr;
  return m_rows != nullptr;
}

/* Whether the table has all columns of a key. One that refers to columns that a table had before it
   was made anew, without checks, refers to no row. */
static bool has_columns(const TABLE *table, const std::vector<std::string> &columns)
{
  return std::all_of(columns.begin(), columns.end(), [table](const std::string &name) { return column_of(table->s, name) != UINT_MAX; });
}

Foreign_keys::Foreign_keys(TABLE *table, std::vector<Reference> own_keys, std::vector<Reference> referring_keys)
{
  own.reserve(own_keys.size());
  referring.reserve(referring_keys.size());
  for (Reference &reference : own_keys)
    if (has_columns(table, reference.columns))
      own.emplace_back(std::move(reference), true);
  for (Reference &reference : referring_keys)
    if (has_columns(table, reference.parent_columns))
      referring.emplace_back(std::move(reference), false);
  std::vector<std::vector<uint>> lists;
  const auto add= [&](const std::vector<std::string> &names) {
    std::vector<uint> columns;
    for (const std::string &name : names)
      columns.push_back(column_of(table->s, name));
    lists.push_back(std::move(columns));
  };
  for (const Link &link : own)
    add(link.own_columns());
  for (const Link &link : referring)
    add(link.own_columns());
  for (const Link &link : own)
    if (link.is_to_itself() && has_columns(table, link.other_columns()))
      add(link.other_columns());
    else
      add(link.own_columns());
  m_images= std::make_unique<Key_images>(table, lists);
}

bool Foreign_keys::lock_parents(THD *thd)
{
  for (const Link &link : own)
    if (!link.is_to_itself() && !lock_name(thd, link.other(), MDL_SHARED_READ))
      return false;
  m_locked_in= thd->query_id;
  return true;
}

uint Foreign_keys::list_of(const Link &link) const
{
  const bool is_own= !own.empty() && &link >= &own.front() && &link <= &own.back();
  return static_cast<uint>(is_own ? &link - own.data() : &link - referring.data() + static_cast<ptrdiff_t>(own.size()));
}

Key_images::Made Foreign_keys::make(const Link &link, const uchar *record, PerduraKey *key)
{
  return m_images->make_in_form(list_of(link), record, link.form(), key);
}

bool Foreign_keys::is_same(const Link &link, const uchar *before, const uchar *after) const
{
  return m_images->is_same(list_of(link), before, after);
}

bool Foreign_keys::is_same_column(const Link &link, size_t column, const uchar *before, const uchar *after) const
{
  return m_images->is_same_part(list_of(link), column, before, after);
}

bool Foreign_keys::refers_to_itself(const Link &link, const uchar *record)
{
  if (!link.is_to_itself())
    return false;
  PerduraKey one, other;
  const uint list= list_of(link);
  const uint of_parent= list + static_cast<uint>(own.size() + referring.size());
  return m_images->make_in_form(list, record, link.form(), &one) == Key_images::Made::KEY &&
         m_images->make_in_form(of_parent, record, link.form(), &other) == Key_images::Made::KEY && one.length == other.length &&
         !memcmp(one.bytes, other.bytes, one.length);
}

} // namespace perdura
