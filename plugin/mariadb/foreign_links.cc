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

Referring_rows::~Referring_rows()
{
  if (m_referring)
    perdura_referring_end(m_referring);
}

PerduraCode Referring_rows::look_up(const Link &link, PerduraSession *session, PerduraReferenceKey key)
{
  return perdura_referring_begin(link.rows(), session, key, &m_referring);
}

extern "C" {
static void take_row(void *rows, uint64_t row)
{
  static_cast<std::vector<uint64_t> *>(rows)->push_back(row);
}
}

PerduraCode Referring_rows::next(PerduraSession *session)
{
  m_rows.clear();
  return perdura_referring_next(m_referring, session, take_row, &m_rows);
}

/* Whether the table has all columns of a key. One that refers to columns that a table had before it
   was made anew, without checks, refers to no row. */
static bool has_columns(const TABLE *table, const std::vector<std::string> &columns)
{
  return std::all_of(columns.begin(), columns.end(), [table](const std::string &name) { return column_of(table->s, name) != UINT_MAX; });
}

Foreign_keys::Foreign_keys(TABLE *table, std::vector<Reference> own_keys, std::vector<Reference> referring_keys)
{
  /* A row's entries are written index by index, and checked as they come. */
  std::stable_sort(own_keys.begin(), own_keys.end(), [table](const Reference &one, const Reference &other) {
    return index_of(table->s, table->key_info, one.columns) < index_of(table->s, table->key_info, other.columns);
  });
  own.reserve(own_keys.size());
  referring.reserve(referring_keys.size());
  for (Reference &reference : own_keys)
    if (has_columns(table, reference.columns))
      own.emplace_back(std::move(reference), true, index_of(table->s, table->key_info, reference.columns));
  for (Reference &reference : referring_keys)
    if (has_columns(table, reference.parent_columns))
      referring.emplace_back(std::move(reference), false, index_of(table->s, table->key_info, reference.parent_columns));
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
  if (!link.is_to_itself() || link.index() >= link.own_index())
    return false;
  PerduraKey one, other;
  return m_images->make_in_form(list_of(link), record, link.form(), &one) == Key_images::Made::KEY &&
         m_images->make_in_form(list_of_parent(link), record, link.form(), &other) == Key_images::Made::KEY && one.length == other.length &&
         !memcmp(one.bytes, other.bytes, one.length);
}

/* A key that refers to the table itself, as one of its own. */
const Link *Foreign_keys::own_side(const Link &link) const
{
  const auto is_it= [&link](const Link &other) { return other.reference.name == link.reference.name; };
  const auto found= std::find_if(own.begin(), own.end(), is_it);
  return link.is_to_itself() && found != own.end() ? &*found : nullptr;
}

bool Foreign_keys::is_own_child(const Link &link, const uchar *record)
{
  const Link *side= own_side(link);
  PerduraKey one, other;
  return side && make(link, record, &one) == Key_images::Made::KEY &&
         m_images->make_in_form(list_of(*side), record, link.form(), &other) == Key_images::Made::KEY && one.length == other.length &&
         !memcmp(one.bytes, other.bytes, one.length);
}

bool Foreign_keys::is_own_child_still(const Link &link, const uchar *before, const uchar *after)
{
  if (!is_own_child(link, before))
    return false;
  return link.index() > link.own_index() || (after && is_same(*own_side(link), before, after));
}

bool Foreign_keys::is_same_parent(const Link &link, const uchar *before, const uchar *after) const
{
  return m_images->is_same(list_of_parent(link), before, after);
}

} // namespace perdura
