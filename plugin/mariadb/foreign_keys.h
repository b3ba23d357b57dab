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

/* Foreign keys: what the pool has of them, in the server's words. */

#ifndef PERDURA_FOREIGN_KEYS_H
#define PERDURA_FOREIGN_KEYS_H

#include "perdura_plugin.h"

#include <string>
#include <vector>

namespace perdura {

/* A table by its names as users write them. */
struct Table_name
{
  std::string database, table;

  /* The name of a table at a path, whose last two parts count. */
  static Table_name of_path(const char *path);
  std::string path() const;
  bool operator==(const Table_name &other) const { return database == other.database && table == other.table; }
};

/* Whether a table is the server's own: the copy that an ALTER TABLE fills, or the one it has put
   aside. */
bool is_of_server(const std::string &table);

/* A foreign key. */
struct Reference
{
  /* The name that users see. One without a name of its own is called after its table and its
     number. */
  std::string name;
  uint number= 0;
  Table_name child, parent;
  std::vector<std::string> columns, parent_columns;
  enum_fk_option on_delete= FK_OPTION_RESTRICT, on_update= FK_OPTION_RESTRICT;
  /* The table is a copy that an ALTER TABLE fills, and its rows hold to the key already. */
  bool is_carried= false;

  /* The number in a name that is the one of a numbered key of its table; 0 if it is not. */
  uint number_in_name() const;
  void set_number(uint with);
  /* CONSTRAINT ... ON UPDATE ..., as SHOW CREATE TABLE has it. */
  std::string clause(THD *thd) const;
  /* The same behind the child's name, as errors have it. */
  std::string description(THD *thd) const;
};

/* The foreign keys that belong to the table at a path, in the order of their names. */
std::vector<Reference> references_of(const char *path, PerduraKeysOf of);

/* A list of foreign keys for the crates. */
class Reference_list
{
public:
  explicit Reference_list(std::vector<Reference> references);
  Reference_list(const Reference_list &)= delete;

  void put_in(PerduraDefinition *definition) const
  {
    definition->foreign_keys= m_keys.data();
    definition->foreign_key_count= m_keys.size();
  }

private:
  std::vector<Reference> m_references;
  std::vector<std::string> m_paths;
  std::vector<std::vector<const char *>> m_columns;
  std::vector<PerduraForeignKey> m_keys;
};

/* Whether the connection has foreign keys checked. */
inline bool checks_foreign_keys(THD *thd)
{
  return !thd_test_options(thd, OPTION_NO_FOREIGN_KEY_CHECKS);
}

/* Locks the name of a table until the transaction ends: shared for a reader, who thereby keeps DDL
   off the table; or else against those who change its rows. False, with an error, if that fails. */
bool lock_name(THD *thd, const Table_name &name, enum_mdl_type type);

/* Keeps the name of a foreign key for this transaction, until it ends; waits for others that do so.
   False, with an error, if that fails. */
bool lock_constraint(THD *thd, const std::string &database, const std::string &name);

/* The server's definition of a table, as the pool has it: of any table of the pool, not opened. */
class Table_share
{
public:
  /* `share()` is null if the pool does not have the table, or the server its definition alone. */
  Table_share(THD *thd, const Table_name &name);
  ~Table_share();
  Table_share(const Table_share &)= delete;

  TABLE_SHARE *share() { return m_is_open ? &m_share : nullptr; }

private:
  TABLE_SHARE m_share;
  std::string m_path, m_key;
  bool m_is_open= false;
};

/* Number of a column by its name; UINT_MAX if there is none. */
uint column_of(const TABLE_SHARE *share, const std::string &name);

constexpr uint NO_KEY= MAX_KEY;

/* The first index that begins with these columns, whole and in this order; NO_KEY if there is
   none. */
uint index_of(const TABLE_SHARE *share, const KEY *keys, const std::vector<std::string> &columns);

/* Whether two columns can be compared by the images that they have in keys. */
bool is_comparable(const Field *one, const Field *other);

} // namespace perdura

#endif
