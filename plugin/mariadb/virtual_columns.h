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

/* Virtual columns: computed by the server when a row is read, and by the engine where the server
   leaves that out or the engine itself needs them. */

#ifndef PERDURA_VIRTUAL_COLUMNS_H
#define PERDURA_VIRTUAL_COLUMNS_H

#include "server.h"

#include <vector>

namespace perdura {

/* A set of the columns of a table. */
class Column_set
{
public:
  explicit Column_set(const TABLE *table);
  Column_set(Column_set &&)= default;

  MY_BITMAP *bits() { return &m_bits; }
  const MY_BITMAP *bits() const { return &m_bits; }

private:
  std::vector<my_bitmap_map> m_words;
  MY_BITMAP m_bits;
};

/* The virtual columns of one open table, and what they are computed from. Before the server looks
   up a row while it has a new one in hand, it puts the new one's virtual blobs aside. */
class Virtual_columns
{
public:
  explicit Virtual_columns(TABLE *table);

  /* Whether a table has any. */
  static bool are_in(const TABLE *table);
  /* Settles the columns that a read takes: those of `wanted` and, unless it is MAX_KEY, of an
     index, with all that they are computed from. */
  const MY_BITMAP *choose(const MY_BITMAP *wanted, uint index);
  /* Computes those of the columns chosen that are virtual, in a row as it was read. */
  void compute_chosen(handler *file, uchar *record)
  {
    if (m_chose_virtual)
      compute(file, m_chosen.bits(), record);
  }
  /* Computes the virtual columns of the key of an index, from a row that has what they need. */
  void compute_key(handler *file, uint index, uchar *record) { compute(file, m_of_indexes[index].bits(), record); }
  /* Adds the columns of a key, of this table or one with the same columns, with all that they are
     computed from. */
  void add_key(const KEY &key, MY_BITMAP *columns) const;
  /* Computes the virtual columns among `columns` in record[0], as for a new row: with warnings. */
  void compute_new(handler *file, Column_set *columns) const { compute_fields(file, columns->bits()); }

private:
  /* A virtual column, and the columns that it is computed from, directly or not. */
  struct Column
  {
    Field *field;
    Column_set bases;
  };

  bool add_bases(MY_BITMAP *columns) const;
  void find_bases(Column *column) const;
  void compute(handler *file, MY_BITMAP *columns, uchar *record) const;
  void compute_fields(handler *file, MY_BITMAP *columns) const;

  TABLE *m_table;
  /* In the order of the table: each is computed from columns before it. */
  std::vector<Column> m_columns;
  /* The columns of each index, with all that they are computed from. */
  std::vector<Column_set> m_of_indexes;
  Column_set m_chosen;
  /* Whether any of the columns chosen is virtual. */
  bool m_chose_virtual= false;
};

} // namespace perdura

#endif
