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

/* Which columns a read takes, and virtual ones that the engine computes. */

#include "ha_perdura.h"

/* Settles the columns that a read through an index takes, or one of the table with MAX_KEY. A
   statement that only reads needs the columns that it uses; the server's set need not name those
   that virtual ones are computed from, nor those of a key that the engine computes for an
   index-only read or a condition on the entries. A statement that changes rows needs all, for it
   stores whole rows; one that locks them needs those of the keys that it compares. */
void ha_perdura::choose_columns(uint index)
{
  const MY_BITMAP *columns= table->read_set;
  if (unlikely(m_virtual))
    columns= m_virtual->choose(columns, keyread_enabled() || pushed_idx_cond ? index : MAX_KEY);
  const bool all= m_locks || m_lock_type >= TL_FIRST_WRITE || bitmap_is_set_all(columns);
  perdura_cursor_set_columns(m_cursor, all ? nullptr : reinterpret_cast<const uint8_t *>(columns->bitmap));
  m_columns_chosen= true;
}

/* Computes the columns of the key that the row does not store, for the engine's own use. */
void ha_perdura::compute_key(uchar *record)
{
  if (unlikely(m_keys->has_virtual(active_index)))
    m_virtual->compute_key(this, active_index, record);
}

/* A row was read. The server computes its virtual columns unless it has asked for the columns of a
   key alone. */
int ha_perdura::row_found(uchar *record)
{
  if (unlikely(keyread_enabled() && m_virtual && m_any_order != Any_order::NO_COLUMNS))
    m_virtual->compute_chosen(this, record);
  return 0;
}
