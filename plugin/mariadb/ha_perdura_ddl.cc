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

/* CREATE, open, DROP, RENAME, TRUNCATE, and what the pool stores of the server's definition of a
   table. */

#include "foreign_definitions.h"
#include "ha_perdura.h"
#include "table_definition.h"

using namespace perdura;

/* An option that the engine does not have: an error if strict mode asks for it, otherwise a
   warning. */
static int refuse_option(THD *thd, const char *option, bool is_asked_for)
{
  if (thd->is_strict_mode() && is_asked_for)
  {
    my_error(ER_ILLEGAL_HA_CREATE_OPTION, MYF(0), "Perdura", option);
    return HA_WRONG_CREATE_OPTION;
  }
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_ILLEGAL_HA_CREATE_OPTION, ER_THD(thd, ER_ILLEGAL_HA_CREATE_OPTION), "Perdura",
                      option);
  return 0;
}

/* Tells of options that the engine would otherwise ignore in silence. */
static int check_options(THD *thd, const TABLE *form, const HA_CREATE_INFO *info)
{
  /* An ALTER that only brings an option along from another engine's table has not asked for it. Of
     partitions the server does not say. */
  const bool is_partitioned= form->s->partition_info_str != nullptr;
  const auto is_asked_for= [info, is_partitioned](ulong option) { return is_partitioned || (info->used_fields & option); };
  int error= 0;
  if (info->data_file_name)
    error= refuse_option(thd, "DATA DIRECTORY", is_asked_for(HA_CREATE_USED_DATADIR));
  if (!error && info->index_file_name)
    error= refuse_option(thd, "INDEX DIRECTORY", is_asked_for(HA_CREATE_USED_INDEXDIR));
  if (!error && info->row_type == ROW_TYPE_COMPRESSED)
    error= refuse_option(thd, "ROW_FORMAT=COMPRESSED", (info->used_fields & HA_CREATE_USED_ROW_FORMAT) != 0);
  return error;
}

/* The foreign keys of a new table; and if it is a copy that takes the place of another, those that
   it keeps, and the path of the other. */
static int find_foreign_keys(THD *thd, const char *path, TABLE *form, HA_CREATE_INFO *info, std::vector<Reference> *found,
                             std::string *copy_of)
{
  const bool is_temporary= info->tmp_table();
  const Table_name name= is_temporary ? Table_name{form->s->db.str, form->s->table_name.str} : Table_name::of_path(path);
  const Table_name source= is_temporary ? name : Foreign_definitions::source_of(thd, name);
  const bool is_copy= !(source == name);
  Foreign_definitions keys(thd, form, source, is_temporary);
  Alter_info *statement= info->alter_info ? info->alter_info : &thd->lex->alter_info;
  if (int error= keys.find(statement, is_copy))
    return error;
  if (int error= keys.check())
    return error;
  *found= keys.list(is_copy);
  if (is_copy)
    *copy_of= source.path();
  return 0;
}

/* Sets the first value of a new table's AUTO_INCREMENT column. */
static PerduraCode begin_counting(const char *name, Table_definition *definition, ulonglong first)
{
  PerduraCursor *cursor;
  PerduraCode code= perdura_cursor_open(pool, name, definition->get(), &cursor);
  if (code != PERDURA_CODE_OK)
    return code;
  code= perdura_counter_set(pool, nullptr, cursor, std::max<ulonglong>(first, 1));
  perdura_cursor_close(cursor);
  return code;
}

/* Whether there is the directory of a table's database. With other engines the server finds out
   when it writes the table's .frm file or moves it. A table that is found through the pool has such
   a file only once it was opened. */
static bool has_directory(const char *name)
{
  char directory[FN_REFLEN];
  size_t length;
  dirname_part(directory, name, &length);
  return !my_access(directory, F_OK);
}

int ha_perdura::create(const char *name, TABLE *form, HA_CREATE_INFO *info)
{
  if (!has_directory(name))
  {
    my_error(ER_BAD_DB_ERROR, MYF(0), form->s->db.str);
    return HA_ERR_UNSUPPORTED;
  }
  if (int error= check_options(ha_thd(), form, info))
    return error;
  if (int error= check_missing_features(ha_thd(), form))
    return error;
  std::vector<Reference> foreign_keys;
  std::string copy_of;
  if (int error= find_foreign_keys(ha_thd(), name, form, info, &foreign_keys, &copy_of))
    return error;
  const Key_images keys(form);
  Table_definition definition(form, keys);
  const Reference_list references(std::move(foreign_keys));
  references.put_in(definition.get());
  definition.get()->copy_of= copy_of.empty() ? nullptr : copy_of.c_str();
  /* By its image another server finds the table. The server itself keeps the definitions of
     partitioned tables. */
  const LEX_CUSTRING *image= form->s->frm_image;
  if (image && !form->s->partition_info_str && !info->tmp_table())
  {
    definition.get()->frm= image->str;
    definition.get()->frm_bytes= image->length;
  }
  PerduraCode code= perdura_table_create(pool, name, definition.get());
  if (code == PERDURA_CODE_OK && form->found_next_number_field)
  {
    code= begin_counting(name, &definition, info->auto_increment_value);
    if (code != PERDURA_CODE_OK)
      perdura_table_drop(pool, name);
  }
  if (code == PERDURA_CODE_OK)
    return 0;
  if (code != PERDURA_CODE_EXISTS)
  {
    char message[MESSAGE_BYTES];
    perdura_message(reinterpret_cast<uint8_t *>(message), sizeof(message));
    my_printf_error(code == PERDURA_CODE_DEVICE_FULL ? ER_DISK_FULL : ER_CANT_CREATE_TABLE, "%s", MYF(0), message);
  }
  return table_error(code);
}

int ha_perdura::open(const char *name, int, uint)
{
  m_keys= std::make_unique<Key_images>(table);
  if (Virtual_columns::are_in(table))
    m_virtual= std::make_unique<Virtual_columns>(table);
  note_index_flags();
  disable_missing_keys(table);
  Table_definition definition(table, *m_keys);
  PerduraCode code= perdura_cursor_open(pool, name, definition.get(), &m_cursor);
  if (code != PERDURA_CODE_OK)
  {
    m_cursor= nullptr;
    /* Told that the table does not exist, the server would drop its definition, of which a
       partitioned table has no other copy. */
    if (code == PERDURA_CODE_NOT_FOUND && table->s->partition_info_str)
      return HA_ERR_INTERNAL_ERROR;
    return table_error(code);
  }
  m_path= name;
  m_mrr.init(this, table);
  if (table->found_next_number_field)
    check_auto_increment();
  return info(HA_STATUS_VARIABLE | HA_STATUS_CONST | HA_STATUS_OPEN);
}

ha_perdura::~ha_perdura()
{
  close();
}

int ha_perdura::close()
{
  m_foreign.reset();
  m_foreign_version= 0;
  if (m_cursor)
    perdura_cursor_close(m_cursor);
  m_cursor= nullptr;
  return 0;
}

int ha_perdura::delete_table(const char *name)
{
  return perdura::drop_table(name);
}

/* Whether a table may be dropped: foreign keys of others may refer to it. Those of a database go
   with it. */
static bool is_droppable(THD *thd, const char *path)
{
  if (!thd || !checks_foreign_keys(thd) || !perdura_table_exists(pool, path))
    return true;
  const Table_name name= Table_name::of_path(path);
  const bool goes_with_database= thd_sql_command(thd) == SQLCOM_DROP_DB;
  for (const Reference &key : references_of(path, PERDURA_KEYS_OF_PARENT))
    if (!(key.child == name) && !(goes_with_database && key.child.database == name.database))
      return false;
  return true;
}

int perdura::drop_table(const char *path)
{
  return is_droppable(current_thd, path) ? table_error(perdura_table_drop(pool, path)) : HA_ERR_ROW_IS_REFERENCED;
}

int ha_perdura::rename_table(const char *from, const char *to)
{
  if (!has_directory(to))
    return HA_ERR_GENERIC;
  int error= claim_renamed_keys(ha_thd(), from, to);
  if (!error)
    error= check_renamed_parent(ha_thd(), from, to);
  if (error)
    return error;
  return table_error(perdura_table_rename(pool, from, to));
}

/* EXCHANGE PARTITION compares the formats. The engine has one, but as with InnoDB a partition is
   not to become of another format than its table's definition says. */
enum row_type ha_perdura::get_row_type() const
{
  return table_share->row_type == ROW_TYPE_DEFAULT ? ROW_TYPE_DYNAMIC : table_share->row_type;
}

/* EXCHANGE PARTITION asks whether the rows of one table can be those of the other. */
bool ha_perdura::check_if_incompatible_data(HA_CREATE_INFO *, uint table_changes)
{
  return table_changes == IS_EQUAL_YES ? COMPATIBLE_DATA_YES : COMPATIBLE_DATA_NO;
}

int ha_perdura::truncate()
{
  PerduraCode code= perdura_table_truncate(pool, m_cursor);
  if (code == PERDURA_CODE_OK && table->found_next_number_field)
    code= perdura_counter_set(pool, nullptr, m_cursor, 1);
  return table_error(code);
}
