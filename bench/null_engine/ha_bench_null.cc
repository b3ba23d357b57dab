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

/* A transactional engine that stores nothing, the floor of `cargo xtask bench load`. It takes part
   in the transaction as Perdura does: it registers with each statement and with the transaction,
   and the server calls it to commit. Unlike BLACKHOLE it is thus a transactional engine to the
   server. Rows written are thrown away, and a scan finds none.

   Thread-safety: nothing is kept outside the handlers, each of which one thread at a time uses. */

#include "../../plugin/mariadb/server.h"

namespace {

handlerton *hton= nullptr;

class ha_bench_null final : public handler
{
public:
  ha_bench_null(handlerton *hton, TABLE_SHARE *share) : handler(hton, share) { ref_length= sizeof(uint64_t); }

  /* As in Perdura in all that matters to a load, so that the server treats both alike. */
  Table_flags table_flags() const override
  {
    return HA_REC_NOT_IN_SEQ | HA_CAN_GEOMETRY | HA_CAN_VIRTUAL_COLUMNS | HA_BINLOG_ROW_CAPABLE | HA_ONLINE_ANALYZE;
  }
  ulong index_flags(uint, uint, bool) const override { return 0; }
  uint max_supported_keys() const override { return 0; }
  uint max_supported_record_length() const override { return HA_MAX_REC_LENGTH; }
  uint8 table_cache_type() override { return HA_CACHE_TBL_NOCACHE; }
  uint lock_count() const override { return 0; }
  int info(uint) override { return 0; }

  int create(const char *, TABLE *, HA_CREATE_INFO *) override { return 0; }
  int open(const char *, int, uint) override { return 0; }
  int close() override { return 0; }
  int rename_table(const char *, const char *) override { return 0; }
  int truncate() override { return 0; }

  int external_lock(THD *thd, int lock_type) override { return lock_type == F_UNLCK ? 0 : enter(thd); }
  int start_stmt(THD *thd, thr_lock_type) override { return enter(thd); }
  THR_LOCK_DATA **store_lock(THD *, THR_LOCK_DATA **to, thr_lock_type) override { return to; }

  int write_row(const uchar *) override { return 0; }
  int rnd_init(bool) override { return 0; }
  int rnd_next(uchar *) override { return HA_ERR_END_OF_FILE; }
  int rnd_pos(uchar *, uchar *) override { return HA_ERR_KEY_NOT_FOUND; }
  void position(const uchar *) override {}

private:
  static int enter(THD *thd)
  {
    trans_register_ha(thd, false, hton, 0);
    if (thd_test_options(thd, OPTION_NOT_AUTOCOMMIT | OPTION_BEGIN))
      trans_register_ha(thd, true, hton, 0);
    return 0;
  }
};

handler *create_handler(handlerton *hton, TABLE_SHARE *share, MEM_ROOT *root)
{
  return new (root) ha_bench_null(hton, share);
}

/* The server removes its own file of the table. There is no other. */
int drop_table(handlerton *, const char *)
{
  return -1;
}

int end_transaction(handlerton *, THD *, bool)
{
  return 0;
}

int start(void *target)
{
  hton= static_cast<handlerton *>(target);
  hton->db_type= DB_TYPE_AUTOASSIGN;
  hton->create= create_handler;
  hton->drop_table= drop_table;
  hton->commit= end_transaction;
  hton->rollback= end_transaction;
  return 0;
}

st_mysql_storage_engine engine_info= {MYSQL_HANDLERTON_INTERFACE_VERSION};

} // namespace

maria_declare_plugin(bench_null)
{
  MYSQL_STORAGE_ENGINE_PLUGIN,
  &engine_info,
  "Bench_null",
  "The Perdura developers",
  "A transactional engine that stores nothing, for benchmarks",
  PLUGIN_LICENSE_GPL,
  start,
  nullptr,
  0x0100,
  nullptr,
  nullptr,
  "1.0",
  MariaDB_PLUGIN_MATURITY_EXPERIMENTAL
}
maria_declare_plugin_end;
