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

/* The information_schema tables PERDURA_TRX, PERDURA_LOCKS, PERDURA_LOCK_WAITS, PERDURA_SPACE and
   PERDURA_INDEXES. Each is a plugin of its own in the server's eyes. The crates make the rows; here
   are the columns, in the order of the values that come. */

#include "perdura_plugin.h"

namespace perdura {

/* As long as the crates make a statement and a user's name, and as the server makes names of tables
   in files. */
static constexpr uint STATEMENT_CHARACTERS= 1024, USER_CHARACTERS= 256, TABLE_CHARACTERS= 655;
static constexpr uint ROW_CHARACTERS= 18, WORD_CHARACTERS= 16;

static ST_FIELD_INFO number(const char *name, enum_nullability nullability)
{
  return Show::Column(name, Show::ULonglong(), nullability);
}

/* As DECIMAL(15,3): the server reads length and scale out of one number. */
static ST_FIELD_INFO seconds(const char *name, enum_nullability nullability)
{
  return Show::Column(name, Show::Decimal(1503), nullability);
}

static ST_FIELD_INFO text(const char *name, uint characters, enum_nullability nullability)
{
  return Show::Column(name, Show::Varchar(characters), nullability);
}

static ST_FIELD_INFO transaction_columns[]= {
  number("OWNER_ID", NOT_NULL),
  number("CONNECTION_ID", NULLABLE),
  text("USER", USER_CHARACTERS, NULLABLE),
  text("STATE", WORD_CHARACTERS, NOT_NULL),
  seconds("AGE", NOT_NULL),
  text("ISOLATION_LEVEL", WORD_CHARACTERS, NOT_NULL),
  number("CHANGES", NOT_NULL),
  number("ROW_LOCKS", NOT_NULL),
  number("WRITE_SET_BYTES", NOT_NULL),
  number("SNAPSHOT_CSN", NULLABLE),
  seconds("SNAPSHOT_AGE", NULLABLE),
  text("STATEMENT", STATEMENT_CHARACTERS, NULLABLE),
  Show::CEnd()
};

static ST_FIELD_INFO lock_columns[]= {
  number("OWNER_ID", NOT_NULL),
  number("CONNECTION_ID", NULLABLE),
  text("TABLE_NAME", TABLE_CHARACTERS, NOT_NULL),
  text("ROW_ID", ROW_CHARACTERS, NULLABLE),
  text("LOCK_MODE", WORD_CHARACTERS, NOT_NULL),
  text("LOCK_STATUS", WORD_CHARACTERS, NOT_NULL),
  Show::CEnd()
};

static ST_FIELD_INFO lock_wait_columns[]= {
  number("WAITING_OWNER_ID", NOT_NULL),
  number("WAITING_CONNECTION_ID", NULLABLE),
  text("WAITING_STATEMENT", STATEMENT_CHARACTERS, NULLABLE),
  number("BLOCKING_OWNER_ID", NOT_NULL),
  number("BLOCKING_CONNECTION_ID", NULLABLE),
  text("BLOCKING_STATEMENT", STATEMENT_CHARACTERS, NULLABLE),
  number("BLOCKERS", NOT_NULL),
  text("TABLE_NAME", TABLE_CHARACTERS, NOT_NULL),
  text("ROW_ID", ROW_CHARACTERS, NULLABLE),
  text("LOCK_MODE", WORD_CHARACTERS, NOT_NULL),
  seconds("WAITED", NOT_NULL),
  Show::CEnd()
};

static ST_FIELD_INFO space_columns[]= {
  number("TABLE_ID", NOT_NULL),
  text("TABLE_NAME", TABLE_CHARACTERS, NOT_NULL),
  text("STATE", WORD_CHARACTERS, NOT_NULL),
  number("FILES", NOT_NULL),
  number("FILE_BYTES", NOT_NULL),
  number("USED_BYTES", NULLABLE),
  number("FREE_BYTES", NULLABLE),
  number("TABLE_ROWS", NULLABLE),
  number("PURGE_LAG", NOT_NULL),
  number("FREE_ROW_IDS", NULLABLE),
  number("UNSWEPT", NULLABLE),
  Show::CEnd()
};

static ST_FIELD_INFO index_columns[]= {
  number("TABLE_ID", NOT_NULL),
  text("TABLE_NAME", TABLE_CHARACTERS, NOT_NULL),
  number("INDEX_NUMBER", NOT_NULL),
  text("IS_UNIQUE", WORD_CHARACTERS, NOT_NULL),
  number("KEY_BYTES", NULLABLE),
  text("STATE", WORD_CHARACTERS, NOT_NULL),
  number("LEAVES", NULLABLE),
  number("ENTRIES", NULLABLE),
  number("BYTES", NULLABLE),
  number("FILL", NULLABLE),
  Show::CEnd()
};

/* Where rows go. */
struct Target
{
  THD *thd;
  TABLE *table;
  bool failed;
};

static void store(Field *field, const PerduraValue &value)
{
  field->set_notnull();
  switch (value.kind) {
  case PERDURA_VALUE_KIND_NULL: field->set_null(); return;
  case PERDURA_VALUE_KIND_NUMBER: field->store(static_cast<longlong>(value.number), true); return;
  case PERDURA_VALUE_KIND_MILLISECONDS: field->store(static_cast<double>(value.number) / 1000); return;
  case PERDURA_VALUE_KIND_TEXT:
    field->store(reinterpret_cast<const char *>(value.text), value.bytes, &my_charset_utf8mb4_bin);
    return;
  }
}

extern "C" {
static bool take_row(void *context, const PerduraValue *values, size_t count)
{
  Target *target= static_cast<Target *>(context);
  restore_record(target->table, s->default_values);
  for (size_t i= 0; i < count && i < target->table->s->fields; i++)
    store(target->table->field[i], values[i]);
  target->failed= schema_table_store_record(target->thd, target->table);
  return !target->failed && !thd_killed(target->thd);
}
}

/* As with INNODB_TRX, whoever lacks the privilege PROCESS gets the server's error for that. */
static int fill(THD *thd, TABLE *table, PerduraList list)
{
  if (check_global_access(thd, PROCESS_ACL))
    return 1;
  /* The engine is another plugin in the server's eyes, and could be uninstalled meanwhile. */
  const LEX_CSTRING name= {STRING_WITH_LEN("Perdura")};
  plugin_ref engine= plugin_lock_by_name(thd, &name, MYSQL_STORAGE_ENGINE_PLUGIN);
  if (!engine)
    return 0;
  Target target= {thd, table, false};
  if (pool && perdura_list(pool, list, take_row, &target) == PERDURA_CODE_END)
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_GET_ERRMSG,
                        "Perdura: there are more row locks than are listed; PERDURA_TRX counts them");
  plugin_unlock(thd, engine);
  return target.failed;
}

template <ST_FIELD_INFO *columns, PerduraList list> int start_list(void *target)
{
  ST_SCHEMA_TABLE *table= static_cast<ST_SCHEMA_TABLE *>(target);
  table->fields_info= columns;
  table->fill_table= [](THD *thd, TABLE_LIST *tables, COND *) { return fill(thd, tables->table, list); };
  return 0;
}

int start_transactions(void *target)
{
  return start_list<transaction_columns, PERDURA_LIST_TRANSACTIONS>(target);
}

int start_locks(void *target)
{
  return start_list<lock_columns, PERDURA_LIST_LOCKS>(target);
}

int start_lock_waits(void *target)
{
  return start_list<lock_wait_columns, PERDURA_LIST_LOCK_WAITS>(target);
}

int start_space(void *target)
{
  return start_list<space_columns, PERDURA_LIST_SPACE>(target);
}

int start_indexes(void *target)
{
  return start_list<index_columns, PERDURA_LIST_INDEXES>(target);
}

} // namespace perdura
