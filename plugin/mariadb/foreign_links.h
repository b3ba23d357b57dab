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

/* The foreign keys of one open table, those that it has and those that refer to it, and the
   look-ups at their other ends. A look-up needs no open table there: the crates have the rows, and
   the pool's definition of the other table tells which index has the columns, and how its keys are
   made of them. */

#ifndef PERDURA_FOREIGN_LINKS_H
#define PERDURA_FOREIGN_LINKS_H

#include "foreign_keys.h"
#include "key_images.h"

#include <memory>

namespace perdura {

/* A foreign key of the table, or one that refers to it. */
class Link
{
public:
  /* The other end is the parent if the table `is_child`. */
  Link(Reference key, bool is_child, uint own_index) : reference(std::move(key)), m_is_child(is_child), m_own_index(own_index) {}
  Link(Link &&other) : reference(std::move(other.reference)), m_is_child(other.m_is_child), m_own_index(other.m_own_index)
  {
    std::swap(m_rows, other.m_rows);
  }
  ~Link();

  const Table_name &other() const { return m_is_child ? reference.parent : reference.child; }
  const std::vector<std::string> &own_columns() const { return m_is_child ? reference.columns : reference.parent_columns; }
  const std::vector<std::string> &other_columns() const { return m_is_child ? reference.parent_columns : reference.columns; }
  bool is_to_itself() const { return reference.parent == reference.child; }

  /* Looks at the other table's definition, unless that was done. False if there is no such table,
     or it has no index that can serve. */
  bool find_other(const TABLE *table);

  /* The key of the look-up, for bytes that Key_images has made in form(). */
  PerduraReferenceKey key(const uchar *bytes, size_t length) const
  {
    return {m_index, bytes, static_cast<uint32_t>(length), m_is_whole};
  }
  PerduraReference *rows() const { return m_rows; }
  uint index() const { return m_index; }
  /* The index of the table itself that begins with its columns; NO_KEY if there is none. */
  uint own_index() const { return m_own_index; }
  const std::vector<Key_images::Form> &form() const { return m_form; }
  /* The numbers of a column of the key, once the other table was found. */
  uint own_column(size_t column) const { return m_columns[column].own; }
  uint other_column(size_t column) const { return m_columns[column].other; }

  Reference reference;

private:
  bool m_is_child, m_is_known= false, m_is_whole= false;
  uint m_own_index, m_index= 0;
  std::vector<Key_images::Form> m_form;
  struct Column
  {
    uint own, other;
  };
  std::vector<Column> m_columns;
  PerduraReference *m_rows= nullptr;
};

/* The rows at the other end of a link, locked some at a time. */
class Referring_rows
{
public:
  Referring_rows()= default;
  Referring_rows(const Referring_rows &)= delete;
  ~Referring_rows();

  /* END if there are none. */
  PerduraCode look_up(const Link &link, PerduraSession *session, PerduraReferenceKey key);
  /* Locks the next ones; END if there are no more. */
  PerduraCode next(PerduraSession *session);
  const std::vector<uint64_t> &rows() const { return m_rows; }

private:
  PerduraReferring *m_referring= nullptr;
  std::vector<uint64_t> m_rows;
};

/* All foreign keys of one open table. */
class Foreign_keys
{
public:
  Foreign_keys(TABLE *table, std::vector<Reference> own, std::vector<Reference> referring);

  /* Whether the names of the tables that the table refers to were locked in the statement. */
  bool has_locked_parents(THD *thd) const { return m_locked_in == thd->query_id; }
  /* Locks them, so that there is no DDL on those tables until the transaction ends. False, with an
     error, if that fails. */
  bool lock_parents(THD *thd);

  /* The beginning of the keys at the other end of a link that a record leads to. */
  Key_images::Made make(const Link &link, const uchar *record, PerduraKey *key);
  /* Whether two records lead to the same keys, or have the same bytes in one of the columns. */
  bool is_same(const Link &link, const uchar *before, const uchar *after) const;
  bool is_same_column(const Link &link, size_t column, const uchar *before, const uchar *after) const;
  /* Whether a row refers to itself by a link of its own, and may: its entries are written index by
     index, and the one that is referred to comes first. */
  bool refers_to_itself(const Link &link, const uchar *record);
  /* Whether two records of a row, by a link of the table to itself, are referred to by the same
     key. */
  bool is_same_parent(const Link &link, const uchar *before, const uchar *after) const;

  /* Whether a row refers to itself by `link`, which refers to the table. */
  bool is_own_child(const Link &link, const uchar *record);
  /* Whether it still does once its entry that is referred to has gone, or changed: its entries go
     index by index. There is no record `after` of a row that is deleted. */
  bool is_own_child_still(const Link &link, const uchar *before, const uchar *after);

  /* In the order of their indexes; in that of their names. */
  std::vector<Link> own, referring;

private:
  const Link *own_side(const Link &link) const;
  uint list_of(const Link &link) const;
  uint list_of_parent(const Link &link) const { return list_of(link) + static_cast<uint>(own.size() + referring.size()); }

  /* The columns of all links: first of the table's own keys, then those that others refer to, then
     the parents' columns of its own keys that refer to the table itself. */
  std::unique_ptr<Key_images> m_images;
  query_id_t m_locked_in= 0;
};

} // namespace perdura

#endif
