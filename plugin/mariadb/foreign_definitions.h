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

/* The foreign keys that a statement defines, and those that an altered table keeps. */

#ifndef PERDURA_FOREIGN_DEFINITIONS_H
#define PERDURA_FOREIGN_DEFINITIONS_H

#include "foreign_keys.h"

namespace perdura {

/* The foreign keys of a table as a statement leaves it. */
class Foreign_definitions
{
public:
  /* `form` is the table as it will be, `source` its name for users: that of the table itself, or of
     the one that a copy takes the place of. */
  Foreign_definitions(THD *thd, TABLE *form, Table_name source, bool is_temporary= false)
    : m_thd(thd), m_form(form), m_source(std::move(source)), m_is_temporary(is_temporary)
  {}

  /* The table that a copy of this name takes the place of; the table itself if it is none. */
  static Table_name source_of(THD *thd, const Table_name &name);

  /* Finds the keys that the table keeps, and those that are new; and locks the names of the tables
     that those refer to against writers. Returns a handler error, maybe with an error that the user
     sees. */
  int find(Alter_info *info, bool is_alter);
  /* Checks that the table, as it will be, suits all of them, and those who refer to it. */
  int check();

  bool has_new() const { return m_kept < m_list.size(); }
  /* The database and name of a new key that another one has, if that was the error. */
  const std::string &taken() const { return m_taken; }
  /* The list, with those that the table has kept marked as carried if it is a copy. */
  std::vector<Reference> list(bool is_copy) const;

private:
  int keep(Alter_info *info);
  void rename(std::vector<std::string> *columns) const;
  void add(const Foreign_key *key);
  int name_new();
  int refuse(const Reference &key, const char *reason) const;
  int check_own(const Reference &key, bool is_new);
  int check_types(const Reference &key, const TABLE_SHARE *parent) const;
  int check_referring(const Reference &key);

  THD *m_thd;
  TABLE *m_form;
  Table_name m_source;
  bool m_is_temporary;
  /* Columns that get another name: the one before, and the one after. */
  std::vector<std::pair<std::string, std::string>> m_renamed;
  std::vector<Reference> m_list;
  std::string m_taken;
  /* Those before are kept, and not new. */
  size_t m_kept= 0;
  uint m_highest= 0;
};

/* The same for the names that a table's foreign keys have once the table is renamed. Those of a
   database differ. */
int claim_renamed_keys(THD *thd, const char *from, const char *to);

/* Checks that a table that gets the name that foreign keys of others wait for suits them. */
int check_renamed_parent(THD *thd, const char *from, const char *to);

} // namespace perdura

#endif
