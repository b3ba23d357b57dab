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

#include "pushed_range.h"

namespace perdura {

/* The range of values that a condition leaves of a column. */
struct Value_range
{
  const Field *column;
  Longlong_hybrid first, last;
  bool first_excluded, last_excluded;

  bool narrow(Item *condition);

private:
  bool is_column(Item *item) const
  {
    return item->real_item()->type() == Item::FIELD_ITEM && static_cast<Item_field *>(item->real_item())->field == column;
  }
  bool compare(Item *item, Item_func::Functype how);
  void raise(const Longlong_hybrid &to, bool excluded);
  void lower(const Longlong_hybrid &to, bool excluded);
};

/* Whether an item is an integer that is known, and which the server compares as one. A constant of
   a view is NULL in rows that an outer join makes up. */
static bool is_known(Item *item)
{
  return item->const_item() && item->basic_const_item() && item->result_type() == INT_RESULT && item->cmp_type() == INT_RESULT &&
    !item->is_null();
}

void Value_range::raise(const Longlong_hybrid &to, bool excluded)
{
  const int order= to.cmp(first);
  if (order > 0 || (order == 0 && excluded))
  {
    first= to;
    first_excluded= excluded;
  }
}

void Value_range::lower(const Longlong_hybrid &to, bool excluded)
{
  const int order= to.cmp(last);
  if (order < 0 || (order == 0 && excluded))
  {
    last= to;
    last_excluded= excluded;
  }
}

/* Narrows the range by a comparison of the column with an item. False if that says more. */
bool Value_range::compare(Item *item, Item_func::Functype how)
{
  if (!is_known(item))
    return false;
  const Longlong_hybrid value= item->to_longlong_hybrid();
  switch (how) {
  case Item_func::EQ_FUNC:
    raise(value, false);
    lower(value, false);
    return true;
  case Item_func::GT_FUNC:
  case Item_func::GE_FUNC: raise(value, how == Item_func::GT_FUNC); return true;
  case Item_func::LT_FUNC:
  case Item_func::LE_FUNC: lower(value, how == Item_func::LT_FUNC); return true;
  default: return false;
  }
}

static Item_func::Functype turned_around(Item_func::Functype how)
{
  switch (how) {
  case Item_func::GT_FUNC: return Item_func::LT_FUNC;
  case Item_func::GE_FUNC: return Item_func::LE_FUNC;
  case Item_func::LT_FUNC: return Item_func::GT_FUNC;
  case Item_func::LE_FUNC: return Item_func::GE_FUNC;
  default: return how;
  }
}

/* Narrows the range by a condition. False if that says more. */
bool Value_range::narrow(Item *condition)
{
  if (condition->type() == Item::COND_ITEM)
  {
    if (static_cast<Item_cond *>(condition)->functype() != Item_func::COND_AND_FUNC)
      return false;
    List_iterator_fast<Item> parts(*static_cast<Item_cond *>(condition)->argument_list());
    while (Item *part= parts++)
      if (!narrow(part))
        return false;
    return true;
  }
  if (condition->type() != Item::FUNC_ITEM)
    return false;
  auto function= static_cast<Item_func *>(condition);
  Item **arguments= function->arguments();
  switch (function->functype()) {
  case Item_func::BETWEEN:
    return !static_cast<Item_func_between *>(function)->negated && is_column(arguments[0]) &&
      compare(arguments[1], Item_func::GE_FUNC) && compare(arguments[2], Item_func::LE_FUNC);
  case Item_func::EQ_FUNC:
  case Item_func::GT_FUNC:
  case Item_func::GE_FUNC:
  case Item_func::LT_FUNC:
  case Item_func::LE_FUNC:
    if (is_column(arguments[0]))
      return compare(arguments[1], function->functype());
    return is_column(arguments[1]) && compare(arguments[0], turned_around(function->functype()));
  default: return false;
  }
}

/* The values that an integer column can have. */
static Value_range all_of(const Field *column)
{
  const uint bits= 8 * column->pack_length();
  const bool is_unsigned= static_cast<const Field_num *>(column)->unsigned_flag;
  const ulonglong greatest= ~0ULL >> (64 - bits + (is_unsigned ? 0 : 1));
  const longlong least= is_unsigned ? 0 : -static_cast<longlong>(greatest) - 1;
  return {column, {least, is_unsigned}, {static_cast<longlong>(greatest), is_unsigned}, false, false};
}

Pushed_range::Bound Pushed_range::bound(uint index, Key_images *keys, longlong value, bool is_excluded)
{
  Bound made= {is_excluded ? PERDURA_BOUND_KIND_EXCLUDED : PERDURA_BOUND_KIND_INCLUDED, {}};
  uchar bytes[sizeof(longlong)];
  int8store(bytes, value);
  bool whole;
  const PerduraKey key= keys->search(index, bytes, 1, Key_images::Slot::FIRST, &whole);
  memcpy(made.image, key.bytes, key.length);
  return made;
}

bool Pushed_range::take(TABLE *table, uint index, Key_images *keys, Item *condition)
{
  const KEY_PART_INFO &part= table->key_info[index].key_part[0];
  const Field *column= table->field[part.fieldnr - 1];
  /* A YEAR of two digits is compared as another. */
  if (!is_integer(column) || column->real_type() == MYSQL_TYPE_YEAR || column->null_ptr || (part.key_part_flag & HA_REVERSE_SORT))
    return false;
  const Value_range all= all_of(column);
  Value_range range= all;
  if (!range.narrow(condition) || range.first.cmp(range.last) > 0 || range.first.cmp(all.last) > 0 || range.last.cmp(all.first) < 0)
    return false;
  m_begin= bound(index, keys, range.first.value(), range.first_excluded);
  m_end= bound(index, keys, range.last.value(), range.last_excluded);
  m_length= column->pack_length();
  return true;
}

void Pushed_range::narrow(PerduraBound *found, const Bound &set, size_t length, bool is_end)
{
  if (found->kind != PERDURA_BOUND_KIND_NONE)
  {
    const int order= memcmp(set.image, found->bytes, std::min(length, static_cast<size_t>(found->length)));
    if (order ? (order > 0) == is_end : set.kind == PERDURA_BOUND_KIND_INCLUDED)
      return;
  }
  *found= {set.kind, set.image, static_cast<decltype(found->length)>(length)};
}

void Pushed_range::narrow(PerduraBound *begin, PerduraBound *end) const
{
  narrow(begin, m_begin, m_length, false);
  narrow(end, m_end, m_length, true);
}

} // namespace perdura
