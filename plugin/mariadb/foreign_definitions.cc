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

/* Which foreign keys a table gets: those of the statement, of which the server hands over no
   others, and those that it has had and keeps. What a foreign key may be follows InnoDB. */

#include "foreign_definitions.h"
#include "virtual_columns.h"

namespace perdura {

/* -- which keys */

Table_name Foreign_definitions::source_of(THD *thd, const Table_name &name)
{
  const TABLE_LIST *first= thd->lex->query_tables;
  if (!is_of_server(name.table) || !first)
    return name;
  return {std::string(first->db.str, first->db.length), std::string(first->table_name.str, first->table_name.length)};
}

static bool is_same_name(const char *one, const char *other)
{
  return !my_strcasecmp(system_charset_info, one, other);
}

void Foreign_definitions::rename(std::vector<std::string> *columns) const
{
  for (std::string &name : *columns)
    for (const auto &renamed : m_renamed)
      if (is_same_name(name.c_str(), renamed.first.c_str()))
      {
        name= renamed.second;
        break;
      }
}

/* Takes over the keys that the table has and the statement does not drop. A column may get another
   name. */
int Foreign_definitions::keep(Alter_info *info)
{
  std::vector<Reference> present= references_of(m_source.path().c_str(), PERDURA_KEYS_OF_CHILD);
  for (const Alter_drop &drop : info->drop_list)
  {
    const auto is_meant= [&drop](const Reference &key) { return is_same_name(dropped_name(drop), key.name.c_str()); };
    if (drop.type == Alter_drop::FOREIGN_KEY && std::none_of(present.begin(), present.end(), is_meant))
    {
      my_error(ER_CANT_DROP_FIELD_OR_KEY, MYF(0), "FOREIGN KEY", dropped_name(drop));
      return HA_ERR_UNSUPPORTED;
    }
  }
  for (const Create_field &column : info->create_list)
    if (column.field && strcmp(column.field->field_name.str, column.field_name.str))
      m_renamed.emplace_back(column.field->field_name.str, column.field_name.str);
  for (Reference &key : present)
  {
    m_highest= std::max({m_highest, key.number, key.number_in_name()});
    bool is_dropped= false;
    for (const Alter_drop &drop : info->drop_list)
      is_dropped|= drop.type == Alter_drop::FOREIGN_KEY && is_same_name(dropped_name(drop), key.name.c_str());
    if (is_dropped)
      continue;
    rename(&key.columns);
    if (key.parent == key.child)
      rename(&key.parent_columns);
    m_list.push_back(std::move(key));
  }
  m_kept= m_list.size();
  return 0;
}

static std::vector<std::string> names_of(const List<Key_part_spec> &columns)
{
  std::vector<std::string> names;
  List_iterator_fast<Key_part_spec> all(const_cast<List<Key_part_spec> &>(columns));
  while (const Key_part_spec *column= all++)
    names.emplace_back(column->field_name.str, column->field_name.length);
  return names;
}

static void write_small(CHARSET_INFO *letters, std::string *name)
{
  constexpr size_t LETTER_BYTES_MAX= 3;
  std::string small(LETTER_BYTES_MAX * name->length(), '\0');
  small.resize(letters->cset->casedn(letters, &(*name)[0], name->length(), &small[0], small.length()));
  *name= small;
}

/* Adds a key of the statement. */
void Foreign_definitions::add(const Foreign_key *key)
{
  Reference added;
  added.child= m_source;
  added.parent.database= key->ref_db.str ? std::string(key->ref_db.str, key->ref_db.length) : m_source.database;
  added.parent.table= std::string(key->ref_table.str, key->ref_table.length);
  if (lower_case_table_names)
  {
    write_small(files_charset_info, &added.parent.database);
    write_small(files_charset_info, &added.parent.table);
  }
  const LEX_CSTRING &name= key->constraint_name.str ? key->constraint_name : key->name;
  if (name.str)
    added.name= std::string(name.str, name.length);
  added.columns= names_of(key->columns);
  /* As they stand in the table. */
  for (std::string &column : added.columns)
  {
    const uint number= column_of(m_form->s, column);
    if (number != UINT_MAX)
      column= m_form->field[number]->field_name.str;
  }
  added.parent_columns= names_of(key->ref_columns);
  /* As InnoDB takes it. */
  const auto action= [](enum_fk_option option) { return option == FK_OPTION_SET_DEFAULT ? FK_OPTION_RESTRICT : option; };
  added.on_delete= action(key->delete_opt);
  added.on_update= action(key->update_opt);
  m_list.push_back(std::move(added));
}

/* Has whoever gives keys of the database one of these names meanwhile wait until the statement
   ends, and so find the names taken. False, with an error, if that fails. */
static bool claim_names(THD *thd, const std::string &database, std::vector<std::string> names)
{
  for (std::string &name : names)
    write_small(system_charset_info, &name);
  /* In one order, so that nobody waits in a circle. */
  std::sort(names.begin(), names.end());
  return std::all_of(names.begin(), names.end(), [&](const std::string &name) { return lock_constraint(thd, database, name); });
}

/* Gives numbers to the new keys without a name, and refuses names that others in the database
   have. */
int Foreign_definitions::name_new()
{
  for (size_t i= m_kept; i < m_list.size(); i++)
    if (!m_list[i].name.empty())
    {
      const uint number= m_list[i].number_in_name();
      if (number)
        m_list[i].set_number(number);
    }
  for (size_t i= m_kept; i < m_list.size(); i++)
    if (m_list[i].name.empty())
      m_list[i].set_number(++m_highest);
  std::vector<std::string> names;
  for (size_t i= m_kept; i < m_list.size(); i++)
    names.push_back(m_list[i].name);
  if (!claim_names(m_thd, m_source.database, names))
    return HA_ERR_UNSUPPORTED;
  const std::vector<Reference> others= references_of(m_source.path().c_str(), PERDURA_KEYS_OF_DATABASE);
  for (size_t i= m_kept; i < m_list.size(); i++)
  {
    const auto has_name= [this, i](const Reference &key) { return is_same_name(key.name.c_str(), m_list[i].name.c_str()); };
    const auto is_taken= [this, &has_name](const Reference &key) { return !(key.child == m_source) && has_name(key); };
    if (std::any_of(others.begin(), others.end(), is_taken) ||
        std::any_of(m_list.begin(), m_list.begin() + static_cast<ptrdiff_t>(m_kept), has_name))
    {
      m_taken= m_source.database + "/" + m_list[i].name;
      return HA_ERR_FOUND_DUPP_KEY;
    }
    if (std::any_of(m_list.begin() + static_cast<ptrdiff_t>(m_kept), m_list.begin() + static_cast<ptrdiff_t>(i), has_name))
      return refuse(m_list[i], "the statement has another key of this name");
  }
  return 0;
}

int Foreign_definitions::find(Alter_info *info, bool is_alter)
{
  if (is_alter)
    if (int error= keep(info))
      return error;
  for (const Key &key : info->key_list)
    if (key.type == Key::FOREIGN_KEY && !key.old)
      add(static_cast<const Foreign_key *>(&key));
  if (int error= name_new())
    return error;
  for (size_t i= m_kept; i < m_list.size(); i++)
    if (!(m_list[i].parent == m_source) && !lock_name(m_thd, m_list[i].parent, MDL_SHARED_NO_WRITE))
      return HA_ERR_UNSUPPORTED;
  return 0;
}

int claim_renamed_keys(THD *thd, const char *from, const char *to)
{
  const int command= thd_sql_command(thd);
  const Table_name before= Table_name::of_path(from), after= Table_name::of_path(to);
  std::vector<Reference> keys;
  if (!is_of_server(after.table) && (command == SQLCOM_RENAME_TABLE || command == SQLCOM_ALTER_TABLE))
    keys= references_of(from, PERDURA_KEYS_OF_CHILD);
  if (keys.empty())
    return 0;
  std::vector<std::string> names;
  for (Reference &key : keys)
  {
    key.child= after;
    if (key.number)
      key.set_number(key.number);
    names.push_back(key.name);
  }
  if (!claim_names(thd, after.database, names))
    return HA_ERR_UNSUPPORTED;
  /* A table that the server has put aside has the same names as the one that comes in its place. */
  for (const Reference &other : references_of(to, PERDURA_KEYS_OF_DATABASE))
  {
    const auto is_it= [&other](const std::string &name) { return is_same_name(name.c_str(), other.name.c_str()); };
    if (other.child == before || is_of_server(other.child.table) || std::none_of(names.begin(), names.end(), is_it))
      continue;
    /* InnoDB's error. */
    my_error(ER_TABLE_EXISTS_ERROR, MYF(0), to);
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_FOUND_DUPP_KEY,
                        "Perdura: it would have a foreign key %s, as table %s of the database has; drop one of them first", other.name.c_str(),
                        other.child.table.c_str());
    return HA_ERR_GENERIC;
  }
  return 0;
}

std::vector<Reference> Foreign_definitions::list(bool is_copy) const
{
  std::vector<Reference> keys= m_list;
  for (size_t i= 0; is_copy && i < m_kept; i++)
    keys[i].is_carried= true;
  return keys;
}

/* -- what they may be */

/* Says why a key cannot be, as a warning beside the server's error. */
static int refuse_key(THD *thd, const std::string &table, const Reference &key, const char *reason)
{
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, HA_ERR_CANNOT_ADD_FOREIGN, "Perdura: table %s, %s: %s", table.c_str(),
                      key.clause(thd).c_str(), reason);
  return HA_ERR_CANNOT_ADD_FOREIGN;
}

int Foreign_definitions::refuse(const Reference &key, const char *reason) const
{
  return refuse_key(m_thd, m_source.table, key, reason);
}

static bool changes_child(enum_fk_option action)
{
  return action == FK_OPTION_CASCADE || action == FK_OPTION_SET_NULL;
}

/* Whether a stored column is computed from this one: a cascade would leave it as it was. */
static bool has_stored_dependant(TABLE *form, const Field *base)
{
  Column_set used(form);
  MY_BITMAP *const read= form->read_set;
  form->read_set= used.bits();
  for (uint i= 0; i < form->s->fields; i++)
  {
    const Field *field= form->field[i];
    if (field->vcol_info && field->vcol_info->expr && field->stored_in_db())
      field->vcol_info->expr->walk(&Item::register_field_in_read_map, true, nullptr);
  }
  form->read_set= read;
  return bitmap_is_set(used.bits(), base->field_index);
}

int Foreign_definitions::check_own(const Reference &key, bool is_new)
{
  if (m_is_temporary)
    return refuse(key, "a temporary table cannot have foreign keys");
  if (m_form->versioned())
    return refuse(key, "a table with system versioning cannot have foreign keys");
  const bool sets_null= key.on_delete == FK_OPTION_SET_NULL || key.on_update == FK_OPTION_SET_NULL;
  for (const std::string &name : key.columns)
  {
    const uint column= column_of(m_form->s, name);
    if (column == UINT_MAX)
      return refuse(key, "a column of the key is not in the table");
    const Field *field= m_form->field[column];
    if (!field->stored_in_db())
      return refuse(key, "a VIRTUAL column cannot be in a foreign key");
    if (sets_null && !field->real_maybe_null())
      return refuse(key, "SET NULL is asked for, and a column is NOT NULL");
    if ((key.on_delete == FK_OPTION_SET_NULL || changes_child(key.on_update)) && has_stored_dependant(m_form, field))
      return refuse(key, "a cascade would change a column that a STORED one is computed from");
  }
  if (index_of(m_form->s, m_form->key_info, key.columns) == NO_KEY)
  {
    if (is_new || !checks_foreign_keys(m_thd))
      return is_new ? refuse(key, "no index of the table begins with the columns, whole and in their order") : 0;
    my_error(ER_DROP_INDEX_FK, MYF(0), key.name.c_str());
    return HA_ERR_UNSUPPORTED;
  }
  if (!is_new)
    return 0;
  if (key.parent == m_source)
    return check_types(key, m_form->s);
  Table_share parent(m_thd, key.parent);
  if (!parent.share())
  {
    if (!checks_foreign_keys(m_thd))
      return 0;
    return refuse(key, perdura_table_exists(pool, key.parent.path().c_str()) ? "the table that it refers to is partitioned"
                                                                            : "there is no such table of this engine to refer to");
  }
  if (parent.share()->versioned)
    return refuse(key, "a table with system versioning cannot be referred to");
  return check_types(key, parent.share());
}

/* Checks the columns that a key refers to, and their index. */
int Foreign_definitions::check_types(const Reference &key, const TABLE_SHARE *parent) const
{
  for (size_t i= 0; i < key.columns.size(); i++)
  {
    const uint column= column_of(parent, key.parent_columns[i]);
    if (column == UINT_MAX)
      return refuse(key, "a column that it refers to does not exist");
    if (!parent->field[column]->stored_in_db())
      return refuse(key, "it refers to a VIRTUAL column");
    const Field *own= m_form->field[column_of(m_form->s, key.columns[i])];
    if (!is_comparable(own, parent->field[column]))
      return refuse(key, "a column and the one that it refers to are of different types");
    if (key.on_update == FK_OPTION_CASCADE && !own->real_maybe_null() && parent->field[column]->real_maybe_null())
      return refuse(key, "with ON UPDATE CASCADE a NULL may come to a column that is NOT NULL");
  }
  if (index_of(parent, parent->key_info, key.parent_columns) == NO_KEY)
    return refuse(key, "no index of the table that it refers to begins with the columns, whole and in their order");
  return 0;
}

/* Why a key of another table cannot refer to a table; null if it can. */
static const char *why_not(THD *thd, const Reference &key, const TABLE_SHARE *parent, Field *const *fields, const KEY *keys)
{
  Table_share child(thd, key.child);
  for (size_t i= 0; i < key.columns.size(); i++)
  {
    const uint column= column_of(parent, key.parent_columns[i]);
    if (column == UINT_MAX)
      return "a column that it refers to does not exist";
    const uint own= child.share() ? column_of(child.share(), key.columns[i]) : UINT_MAX;
    if (own != UINT_MAX && !is_comparable(child.share()->field[own], fields[column]))
      return "a column and the one that it refers to are of different types";
  }
  if (index_of(parent, keys, key.parent_columns) != NO_KEY)
    return nullptr;
  return "no index of the table that it refers to begins with the columns, whole and in their order";
}

/* Checks that the table still has what a key of another one refers to. */
int Foreign_definitions::check_referring(const Reference &key)
{
  const char *reason= why_not(m_thd, key, m_form->s, m_form->field, m_form->key_info);
  return reason ? refuse(key, reason) : 0;
}

int check_renamed_parent(THD *thd, const char *from, const char *to)
{
  const Table_name before= Table_name::of_path(from), after= Table_name::of_path(to);
  if (thd_sql_command(thd) != SQLCOM_RENAME_TABLE || is_of_server(before.table))
    return 0;
  const std::vector<Reference> waiting= references_of(to, PERDURA_KEYS_OF_PARENT);
  if (waiting.empty())
    return 0;
  Table_share parent(thd, before);
  for (const Reference &key : waiting)
    if (const char *reason= parent.share() ? why_not(thd, key, parent.share(), parent.share()->field, parent.share()->key_info) : nullptr)
      return refuse_key(thd, key.child.table, key, reason);
  return 0;
}

int Foreign_definitions::check()
{
  std::vector<Reference> referring;
  /* Nobody refers to a temporary table, but maybe to another one of its name. */
  if (!m_is_temporary)
    referring= references_of(m_source.path().c_str(), PERDURA_KEYS_OF_PARENT);
  if (m_form->s->partition_info_str && (!m_list.empty() || !referring.empty()))
  {
    my_error(ER_FEATURE_NOT_SUPPORTED_WITH_PARTITIONING, MYF(0), "FOREIGN KEY");
    return HA_ERR_UNSUPPORTED;
  }
  for (size_t i= 0; i < m_list.size(); i++)
    if (int error= check_own(m_list[i], i >= m_kept))
      return error;
  if (m_form->versioned() && !referring.empty())
    return refuse(referring.front(), "a table with system versioning cannot be referred to");
  if (!checks_foreign_keys(m_thd))
    return 0;
  for (Reference &key : referring)
  {
    /* An alteration in place renames them there as well. */
    rename(&key.parent_columns);
    if (!(key.child == m_source))
      if (int error= check_referring(key))
        return error;
  }
  return 0;
}

} // namespace perdura
