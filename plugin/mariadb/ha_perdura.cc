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

/* The plugin's start and end, and CHECK TABLE. No other file uses this one. */

#include "ha_perdura.h"
#include "sequences.h"

using namespace perdura;

static handler *create_handler(handlerton *hton, TABLE_SHARE *share, MEM_ROOT *root)
{
  if (share && share->sequence)
    return create_sequence_handler(hton, share, root);
  return new (root) ha_perdura(hton, share);
}

/* Whether a name is that of a sequence the server finds out by the .frm file, which a table of this
   engine does not have before it is first opened: DROP SEQUENCE would drop such a table. A sequence
   of a pool that has come to another server has none either. */
static int drop_found_table(handlerton *, const char *path)
{
  return thd_sql_command(current_thd) == SQLCOM_DROP_SEQUENCE && is_no_sequence(path) ? HA_ERR_NO_SUCH_TABLE : perdura::drop_table(path);
}

/* After a crash: whether an ALTER TABLE that was under way has come into force. */
static int check_version(handlerton *, const char *path, const LEX_CUSTRING *version, ulonglong)
{
  return perdura_table_has_version(pool, path, version->str, version->length) ? 0 : 1;
}

extern "C" {
static void keep_backup(const char *name)
{
  sql_print_warning("Perdura: %s was left by an ALTER TABLE that a crash interrupted; it is kept because it may be all that is "
                    "left of the table. RENAME or DROP it as `#mysql50#...`.", name);
}
}

extern "C" {
static void note_torn(const char *name)
{
  sql_print_warning("Perdura: the server's copy of the definition of %s was torn by a crash; it is made anew from the pool", name);
}
}

/* The server has finished or undone the DDL that a crash interrupted, so nobody needs the tables
   that it left. */
static int ddl_recovery_done(handlerton *)
{
  if (perdura_drop_ddl_garbage(pool, keep_backup) != PERDURA_CODE_OK)
    log_last_error("dropping what interrupted DDL left");
  return 0;
}

extern "C" {
static void log_notice(const uint8_t *text, size_t bytes)
{
  sql_print_warning("Perdura: %.*s", static_cast<int>(bytes), reinterpret_cast<const char *>(text));
}
}

static void log_medium()
{
  PerduraReport *report= perdura_medium_report(pool);
  size_t bytes;
  const uint8_t *text= perdura_report_text(report, &bytes);
  sql_print_information("Perdura: %.*s", static_cast<int>(bytes), reinterpret_cast<const char *>(text));
  perdura_report_release(report);
}

static int start(void *target)
{
  hton= static_cast<handlerton *>(target);
  hton->db_type= DB_TYPE_AUTOASSIGN;
  hton->flags= HTON_REQUIRES_CLOSE_AFTER_TRUNCATE | HTON_TRUNCATE_REQUIRES_EXCLUSIVE_USE | HTON_SUPPORTS_FOREIGN_KEYS;
  hton->create= create_handler;
  hton->drop_table= drop_found_table;
  hton->show_status= show_status;
  hton->signal_ddl_recovery_done= ddl_recovery_done;
  hton->end_backup= end_backup;
  hton->check_version= check_version;
  ha_perdura::set_costs(hton);
  set_transaction_calls(hton);
  set_discovery_calls(hton);

  hide_default_directory();
  PerduraOptions chosen;
  if (!options(&chosen))
    return 1;
  if (perdura_open(&chosen, &pool) != PERDURA_CODE_OK)
  {
    pool= nullptr;
    log_last_error("opening the pool");
    return 1;
  }
  log_medium();
  perdura_set_notice_handler(pool, log_notice);
  hide_directory();
  sql_print_information("Perdura: back up with `perdura backup` (see docs/operations.md); mariadb-backup and mariabackup copy "
                        "nothing of this engine");
  if (perdura_drop_temporary_tables(pool) != PERDURA_CODE_OK)
    log_last_error("dropping temporary tables of the last run");
  if (perdura_remove_torn_definitions(pool, mysql_data_home, note_torn) != PERDURA_CODE_OK)
    log_last_error("removing torn copies of definitions");
  return 0;
}

static int end(void *)
{
  if (pool)
  {
    perdura_close(pool);
    pool= nullptr;
  }
  return 0;
}

ha_perdura::ha_perdura(handlerton *hton, TABLE_SHARE *share) : Server_handler(hton, share)
{
  ref_length= sizeof(uint64_t);
}

/* No HA_PARTIAL_COLUMN_READ: the server would take it to hold for UPDATE too, which here reads
   whole rows, so that it can skip those that it would not change. No HA_CAN_BIT_FIELD: the server
   would keep bits among the NULL bits, where UPDATE ... SET bits=DEFAULT stores wrong ones. */
handler::Table_flags ha_perdura::table_flags() const
{
  /* HANDLER tells no partition that a statement begins. */
  const Table_flags handler_flag= table_share && table_share->partition_info_str ? 0 : HA_CAN_SQL_HANDLER;
  const Table_flags definition_flags= table_share ? 0 : FLAGS_OF_DEFINITIONS;
  return HA_REC_NOT_IN_SEQ | HA_CAN_GEOMETRY | HA_CAN_VIRTUAL_COLUMNS | HA_BINLOG_ROW_CAPABLE | HA_CAN_TABLE_CONDITION_PUSHDOWN |
         HA_CRASH_SAFE | HA_CAN_SKIP_LOCKED | HA_ONLINE_ANALYZE | HA_CONCURRENT_OPTIMIZE | HA_NULL_IN_KEY | HA_CAN_INDEX_BLOBS |
         HA_CAN_REPAIR | HA_DUPLICATE_POS | HA_REQUIRES_KEY_COLUMNS_FOR_DELETE | HA_CAN_TABLES_WITHOUT_ROLLBACK | handler_flag |
         definition_flags;
}

namespace {
/* Context of the hooks of a check. */
struct Checked
{
  THD *thd;
  TABLE *table;
  handler *file;
  Key_images *keys;
  Virtual_columns *computed;
};
} // namespace

extern "C" {
static bool check_goes_on(void *context, uint64_t done, uint64_t all)
{
  THD *thd= static_cast<Checked *>(context)->thd;
  thd_progress_report(thd, done, all);
  return !thd_killed(thd);
}

/* The server makes a row of the statement's result of each error. */
static void report_fault(void *context, const uint8_t *text, size_t bytes, uint32_t index)
{
  const std::string message(reinterpret_cast<const char *>(text), bytes);
  const char *name= name_of_index(static_cast<Checked *>(context)->table, index);
  if (name)
    my_printf_error(ER_CRASHED_ON_USAGE, "Perdura: key '%s': %s", MYF(ME_ERROR_LOG), name, message.c_str());
  else
    my_printf_error(ER_CRASHED_ON_USAGE, "Perdura: %s", MYF(ME_ERROR_LOG), message.c_str());
}

static bool make_key(void *context, uint32_t index, PerduraKey *key)
{
  Checked *checked= static_cast<Checked *>(context);
  if (checked->keys->has_virtual(index))
    checked->computed->compute_key(checked->file, index, checked->table->record[0]);
  return checked->keys->make(index, checked->table->record[0], Key_images::Slot::FIRST, key);
}
}

/* CHECK TABLE verifies the table online. QUICK leaves out the bytes of the rows, and of the keys.
   `perdura check` checks the pool as a whole. */
int ha_perdura::check(THD *thd, HA_CHECK_OPT *options)
{
  thd_progress_init(thd, 1);
  Checked checked= {thd, table, this, m_keys.get(), m_virtual.get()};
  PerduraCode code= perdura_table_check(m_cursor, m_session, options->flags & T_QUICK, table->record[0],
                                        PerduraCheckHooks{check_goes_on, report_fault, make_key, &checked});
  thd_progress_end(thd);
  switch (code) {
  case PERDURA_CODE_OK: return has_old_bits() ? HA_ADMIN_NEEDS_ALTER : HA_ADMIN_OK;
  case PERDURA_CODE_DAMAGED: return HA_ADMIN_CORRUPT;
  case PERDURA_CODE_KILLED: return HA_ADMIN_FAILED;
  default:
    print_error(failed(code), MYF(0));
    return HA_ADMIN_FAILED;
  }
}

/* Whether the table keeps bits among the NULL bits, as tables of the first builds do: it is read
   and written right, but SET bits=DEFAULT stores wrong bits. */
bool ha_perdura::has_old_bits() const
{
  return std::any_of(table->field, table->field + table->s->fields, [](const Field *field) {
    return field->real_type() == MYSQL_TYPE_BIT && static_cast<const Field_bit *>(field)->bit_len > 0;
  });
}

int ha_perdura::check_for_upgrade(HA_CHECK_OPT *)
{
  return has_old_bits() ? HA_ADMIN_NEEDS_ALTER : HA_ADMIN_OK;
}

static st_mysql_storage_engine engine_info= {MYSQL_HANDLERTON_INTERFACE_VERSION};
static st_mysql_information_schema information_schema_info= {MYSQL_INFORMATION_SCHEMA_INTERFACE_VERSION};

static constexpr const char *AUTHOR= "The Perdura developers", *RELEASE= "0.1";
static constexpr uint RELEASE_NUMBER= 0x0001;

static st_maria_plugin information_table(const char *name, const char *what, int (*begin)(void *))
{
  return {MYSQL_INFORMATION_SCHEMA_PLUGIN, &information_schema_info, name, AUTHOR, what, PLUGIN_LICENSE_GPL, begin, nullptr,
          RELEASE_NUMBER, nullptr, nullptr, RELEASE, MariaDB_PLUGIN_MATURITY_EXPERIMENTAL};
}

maria_declare_plugin(perdura)
{
  MYSQL_STORAGE_ENGINE_PLUGIN,
  &engine_info,
  "Perdura",
  AUTHOR,
  "Transactional tables in persistent memory",
  PLUGIN_LICENSE_GPL,
  start,
  end,
  RELEASE_NUMBER,
  perdura::status_variables,
  perdura::system_variables,
  RELEASE,
  MariaDB_PLUGIN_MATURITY_EXPERIMENTAL
},
information_table("PERDURA_TRX", "Transactions of Perdura", perdura::start_transactions),
information_table("PERDURA_LOCKS", "Locks of Perdura", perdura::start_locks),
information_table("PERDURA_LOCK_WAITS", "Waits for locks of Perdura", perdura::start_lock_waits),
information_table("PERDURA_SPACE", "Space of the tables of Perdura", perdura::start_space),
information_table("PERDURA_INDEXES", "Indexes of the tables of Perdura", perdura::start_indexes)
maria_declare_plugin_end;
