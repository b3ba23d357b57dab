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

/* Translates the crates' errors into the server's, and rolls back where an error demands it. */

#include "ha_perdura.h"

using namespace perdura;

namespace perdura {

/* The handler error for codes that mean the same of rows and of tables. */
static int common_error(PerduraCode code)
{
  switch (code) {
  case PERDURA_CODE_OK: return 0;
  case PERDURA_CODE_END: return HA_ERR_END_OF_FILE;
  case PERDURA_CODE_NOT_FOUND: return HA_ERR_KEY_NOT_FOUND;
  case PERDURA_CODE_EXISTS: return HA_ERR_TABLE_EXIST;
  case PERDURA_CODE_LOCK_WAIT_TIMEOUT: return HA_ERR_LOCK_WAIT_TIMEOUT;
  case PERDURA_CODE_DEADLOCK: return HA_ERR_LOCK_DEADLOCK;
  /* Applications run a transaction again after a deadlock, as they should after this. */
  case PERDURA_CODE_RECORD_CHANGED: return HA_ERR_LOCK_DEADLOCK;
  case PERDURA_CODE_KILLED: return HA_ERR_ABORTED_BY_USER;
  case PERDURA_CODE_DEVICE_FULL: return HA_ERR_RECORD_FILE_FULL;
  case PERDURA_CODE_LOG_FULL: return HA_ERR_UNDO_REC_TOO_BIG;
  case PERDURA_CODE_TABLE_FULL: return HA_ERR_RECORD_FILE_FULL;
  case PERDURA_CODE_ROW_TOO_LARGE: return HA_ERR_TO_BIG_ROW;
  case PERDURA_CODE_DAMAGED: return HA_ERR_CRASHED_ON_USAGE;
  case PERDURA_CODE_NOT_SUPPORTED: return HA_ERR_UNSUPPORTED;
  case PERDURA_CODE_READ_ONLY_POOL: return HA_ERR_TABLE_READONLY;
  case PERDURA_CODE_CONFIGURATION: return HA_ERR_UNSUPPORTED;
  case PERDURA_CODE_MEDIUM: return HA_ERR_INTERNAL_ERROR;
  case PERDURA_CODE_OUT_OF_MEMORY: return HA_ERR_OUT_OF_MEM;
  case PERDURA_CODE_DEFINITION_CHANGED: return HA_ERR_TABLE_DEF_CHANGED;
  case PERDURA_CODE_DUPLICATE_KEY: return HA_ERR_FOUND_DUPP_KEY;
  case PERDURA_CODE_INTERNAL: return HA_ERR_INTERNAL_ERROR;
  }
  return HA_ERR_INTERNAL_ERROR;
}

int handler_error(PerduraCode code, THD *thd)
{
  if (likely(code == PERDURA_CODE_OK))
    return 0;
  if (code == PERDURA_CODE_DEADLOCK || code == PERDURA_CODE_RECORD_CHANGED || code == PERDURA_CODE_LOG_FULL)
    thd->mark_transaction_to_rollback(true);
  return common_error(code);
}

int table_error(PerduraCode code)
{
  return code == PERDURA_CODE_NOT_FOUND ? HA_ERR_NO_SUCH_TABLE : common_error(code);
}

const char *name_of_index(const TABLE *table, uint index)
{
  return table && index < table->s->keys ? table->key_info[index].name.str : nullptr;
}

void log_last_error(const char *doing)
{
  char message[MESSAGE_BYTES];
  perdura_message(reinterpret_cast<uint8_t *>(message), sizeof(message));
  sql_print_error("Perdura: %s: %s", doing, message);
}

} // namespace perdura

int ha_perdura::failed(PerduraCode code)
{
  if (code == PERDURA_CODE_DUPLICATE_KEY)
    m_refused_index= perdura_duplicate(m_cursor, &m_duplicate_row);
  return handler_error(code, table->in_use);
}

/* The server asks for a text where it has none of its own. To its text for a deadlock it would
   append ours. */
bool ha_perdura::get_error_message(int error, String *message)
{
  if (error == HA_ERR_LOCK_DEADLOCK)
    return false;
  if (error == HA_ERR_NO_REFERENCED_ROW || error == HA_ERR_ROW_IS_REFERENCED || error == HA_ERR_FK_DEPTH_EXCEEDED)
  {
    message->copy(m_broken.c_str(), m_broken.length(), &my_charset_utf8mb3_general_ci);
    return false;
  }
  char text[MESSAGE_BYTES];
  perdura_message(reinterpret_cast<uint8_t *>(text), sizeof(text));
  message->copy(text, strlen(text), &my_charset_utf8mb3_general_ci);
  return false;
}

/* Prints the server's own texts, except where they would hide the cause and the remedy that the
   crates' message names. */
void ha_perdura::print_error(int error, myf flags)
{
  uint number;
  switch (error) {
  case HA_ERR_INDEX_COL_TOO_LONG:
    my_printf_error(ER_TOO_LONG_KEY, "Perdura: the row's values for key '%s' take more than the %u bytes that a key can have", flags,
                    table->key_info[m_refused_index].name.str, PERDURA_KEY_BYTES_MAX);
    return;
  case HA_ERR_RECORD_FILE_FULL: number= ER_RECORD_FILE_FULL; flags|= ME_ERROR_LOG; break;
  case HA_ERR_TO_BIG_ROW: number= ER_TOO_BIG_ROWSIZE; break;
  case HA_ERR_UNDO_REC_TOO_BIG: number= ER_UNDO_RECORD_TOO_BIG; break;
  case HA_ERR_CRASHED_ON_USAGE: number= ER_CRASHED_ON_USAGE; flags|= ME_ERROR_LOG; break;
  case HA_ERR_TABLE_READONLY: number= ER_OPEN_AS_READONLY; flags|= ME_ERROR_LOG; break;
  case HA_ERR_UNSUPPORTED: number= ER_UNSUPPORTED_EXTENSION; break;
  case HA_ERR_INTERNAL_ERROR: number= ER_INTERNAL_ERROR; flags|= ME_ERROR_LOG; break;
  case HA_ERR_GENERIC:
    if (table && table->in_use->is_error())
      return;
    number= ER_INTERNAL_ERROR;
    break;
  default:
    handler::print_error(error, flags);
    return;
  }
  char message[MESSAGE_BYTES];
  perdura_message(reinterpret_cast<uint8_t *>(message), sizeof(message));
  const char *index= error == HA_ERR_CRASHED_ON_USAGE ? name_of_index(table, perdura_message_index()) : nullptr;
  if (index)
    my_printf_error(number, "Perdura: key '%s' of table %s.%s: %s", flags, index, table->s->db.str, table->s->table_name.str, message);
  else
    my_printf_error(number, "Perdura: %s", flags, message);
}
