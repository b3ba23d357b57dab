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

/* Discovery: the server finds tables through the pool, so any server that opens the pool has its
   tables. The server's .frm files are copies that it makes when it first opens a table. The open
   notices a copy older than the pool's definition and replaces it. */

#include "perdura_plugin.h"

namespace perdura {

static int discover_table(handlerton *, THD *thd, TABLE_SHARE *share)
{
  PerduraFrm *frm;
  PerduraCode code= perdura_frm_fetch(pool, share->normalized_path.str, &frm);
  if (code == PERDURA_CODE_NOT_FOUND)
    return HA_ERR_NO_SUCH_TABLE;
  if (code != PERDURA_CODE_OK)
  {
    log_last_error("finding a table");
    return table_error(code);
  }
  size_t bytes;
  const uint8_t *image= perdura_frm_data(frm, &bytes);
  int error= share->init_from_binary_frm_image(thd, true, image, bytes);
  perdura_frm_release(frm);
  return error;
}

extern "C" {
static bool add_file(void *list, const char *name)
{
  return static_cast<handlerton::discovered_list *>(list)->add_file(name);
}
}

static int discover_table_names(handlerton *, Database_name *database, MY_DIR *, handlerton::discovered_list *list)
{
  char directory[NAME_LEN * MY_CS_MBMAXLEN + 1];
  tablename_to_filename(database->str, directory, sizeof(directory));
  return perdura_tables_list(pool, directory, add_file, list) == PERDURA_CODE_OK ? 0 : 1;
}

static int discover_table_existence(handlerton *, const char *database, const char *table)
{
  char path[FN_REFLEN + 1];
  build_table_filename(path, sizeof(path) - 1, database, table, "", 0);
  return perdura_table_exists(pool, path);
}

/* The server has dropped the tables that it found. */
static void drop_database(handlerton *, char *path)
{
  if (perdura_drop_database(pool, path) != PERDURA_CODE_OK)
    log_last_error("dropping what is left of a database");
}

void set_discovery_calls(handlerton *target)
{
  target->drop_database= drop_database;
  target->discover_table= discover_table;
  target->discover_table_names= discover_table_names;
  target->discover_table_existence= discover_table_existence;
}

} // namespace perdura
