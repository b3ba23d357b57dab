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

/* INSERT, UPDATE, DELETE: one call into the crates for each row. */

#include "ha_perdura.h"

int ha_perdura::write_row(const uchar *record)
{
  PerduraCode code= perdura_insert(m_cursor, m_session, record);
  return likely(code == PERDURA_CODE_OK) ? 0 : failed(code);
}

int ha_perdura::update_row(const uchar *, const uchar *after)
{
  PerduraCode code= perdura_update(m_cursor, m_session, after);
  return likely(code == PERDURA_CODE_OK) ? 0 : failed(code);
}

int ha_perdura::delete_row(const uchar *)
{
  PerduraCode code= perdura_delete(m_cursor, m_session);
  return likely(code == PERDURA_CODE_OK) ? 0 : failed(code);
}
