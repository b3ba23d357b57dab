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

/* Keys that the engine refuses, or keeps as a definition. One that has been a definition only goes
   through an ALTER TABLE without a word. */

#include "missing_features.h"

namespace perdura {

namespace {

/* A feature: with which error a table is refused for it, why, what to use instead, and what is lost
   if it is let through. */
struct Feature
{
  uint error;
  const char *name, *reason, *instead, *loss;
};

constexpr Feature
  WORDS= {ER_TABLE_CANT_HANDLE_FT, "FULLTEXT indexes", "it has no index of words",
          "search with LIKE or REGEXP, or keep the texts in a table of InnoDB beside this one",
          "the key is a definition without an index, and MATCH is error 1214"},
  SHAPES= {ER_TABLE_CANT_HANDLE_SPKEYS, "SPATIAL indexes", "it has no R-tree",
           "keep the corners of the shapes' rectangles in columns with ordinary keys, or the shapes in a table of InnoDB beside this one",
           "the key is a definition without an index, and conditions on shapes read the whole table"},
  PERIODS= {ER_CHECK_NOT_IMPLEMENTED, "WITHOUT OVERLAPS",
            "the server looks for neighbours of a period, and the engine locks no gap between them",
            "lock the row of the periods' owner with SELECT ... FOR UPDATE before INSERT, and compare in a trigger",
            "overlaps that two transactions insert at the same time are not found"},
  COMPUTED= {ER_CHECK_NOT_IMPLEMENTED, "keys on VIRTUAL columns of partitioned tables",
             "the server merges the partitions by columns that it has not computed", "make the column STORED",
             "the key keeps rows unique, but nothing is read through it"};

} // namespace

static bool is_computed(const TABLE *form, const KEY &key)
{
  for (uint part= 0; form->s->partition_info_str && part < key.user_defined_key_parts; part++)
    if (!form->field[key.key_part[part].fieldnr - 1]->stored_in_db())
      return true;
  return false;
}

/* The feature of a key that the engine does not have; null if there is none. */
static const Feature *feature(const TABLE *form, const KEY &key)
{
  if (is_fulltext(key))
    return &WORDS;
  if (is_spatial(key))
    return &SHAPES;
  if (key.without_overlaps)
    return &PERIODS;
  return is_computed(form, key) ? &COMPUTED : nullptr;
}

bool has_missing_features(const TABLE *form)
{
  return std::any_of(form->key_info, form->key_info + form->s->keys, [form](const KEY &key) { return feature(form, key); });
}

/* The table of this engine that the statement alters. */
static const TABLE *altered_table(THD *thd)
{
  switch (thd_sql_command(thd)) {
  case SQLCOM_ALTER_TABLE:
  case SQLCOM_CREATE_INDEX:
  case SQLCOM_DROP_INDEX:
  case SQLCOM_OPTIMIZE:
  case SQLCOM_REPAIR: break;
  default: return nullptr;
  }
  const TABLE_LIST *first= thd->lex->query_tables;
  const TABLE *table= first ? first->table : nullptr;
  return table && table->file && table->file->partition_ht() == hton ? table : nullptr;
}

/* Whether a table has a key of this name with the same feature. */
static bool has_already(const TABLE *table, const KEY &key, const Feature *missing)
{
  return table && std::any_of(table->key_info, table->key_info + table->s->keys, [=](const KEY &other) {
    return feature(table, other) == missing && !my_strcasecmp(system_charset_info, other.name.str, key.name.str);
  });
}

/* Warns, of all partitions of a table once. */
static void warn(THD *thd, const KEY &key, const Feature *missing)
{
  char text[MYSQL_ERRMSG_SIZE];
  my_snprintf(text, sizeof(text), "Perdura: key '%s': %s. The engine doesn't support %s: %s", key.name.str, missing->loss,
              missing->name, missing->reason);
  Diagnostics_area::Sql_condition_iterator warnings= thd->get_stmt_da()->sql_conditions();
  while (const Sql_condition *warning= warnings++)
    if (!strcmp(warning->get_message_text(), text))
      return;
  push_warning(thd, Sql_condition::WARN_LEVEL_WARN, missing->error, text);
}

int check_missing_features(THD *thd, const TABLE *form)
{
  const TABLE *altered= altered_table(thd);
  for (uint index= 0; index < form->s->keys; index++)
  {
    const KEY &key= form->key_info[index];
    const Feature *missing= feature(form, key);
    if (!missing || has_already(altered, key, missing))
      continue;
    if (!lets_through_missing_features(thd))
    {
      my_printf_error(missing->error, "The storage engine Perdura doesn't support %s (key '%s'): %s. Instead, %s. With "
                                      "perdura_missing_features=warn the table is made all the same: %s",
                      MYF(0), missing->name, key.name.str, missing->reason, missing->instead, missing->loss);
      return HA_ERR_UNSUPPORTED;
    }
    warn(thd, key, missing);
  }
  return 0;
}

const char *type_of_index(const TABLE_SHARE *share, uint index)
{
  const KEY &key= share->key_info[index];
  if (key.algorithm == HA_KEY_ALG_LONG_HASH)
    return "HASH";
  return is_fulltext(key) ? "FULLTEXT" : is_spatial(key) ? "SPATIAL" : "BTREE";
}

uint kept_keys(const TABLE_SHARE *share)
{
  uint kept= share->keys;
  while (kept && is_fulltext(share->key_info[kept - 1]))
    kept--;
  return kept;
}

void disable_missing_keys(TABLE *table)
{
  TABLE_SHARE *share= table->s;
  for (uint index= 0; index < share->keys; index++)
  {
    const Feature *missing= feature(table, table->key_info[index]);
    if (!missing || missing == &PERIODS || !share->keys_in_use.is_set(index))
      continue;
    mysql_mutex_lock(&share->LOCK_share);
    share->keys_in_use.clear_bit(index);
    share->keys_for_keyread.clear_bit(index);
    mysql_mutex_unlock(&share->LOCK_share);
  }
}

} // namespace perdura
