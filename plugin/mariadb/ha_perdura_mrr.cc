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

/* Several ranges of an index at once, by the server's own way (optimizer_switch mrr): it sorts the
   positions that the entries have, and then reads the rows in their order. A statement that locks
   goes range by range: there each row is locked as it is found. For ranges of a condition
   (HA_MRR_NO_ASSOCIATION), which the server checks on each row, a row that has moved counts where
   it is now. */

#include "ha_perdura.h"

ha_rows ha_perdura::multi_range_read_info(uint index, uint ranges, uint keys, uint parts, uint *buffer_size, uint *flags,
                                          Cost_estimate *cost)
{
  if (m_locks)
    return handler::multi_range_read_info(index, ranges, keys, parts, buffer_size, flags, cost);
  return m_mrr.dsmrr_info(index, ranges, keys, parts, buffer_size, flags, cost);
}

int ha_perdura::multi_range_read_init(RANGE_SEQ_IF *ranges, void *first, uint count, uint mode, HANDLER_BUFFER *buffer)
{
  m_walk.ranges= (mode & HA_MRR_NO_ASSOCIATION) && has_whole_condition();
  m_walk.one_range= count == 1;
  m_walk.has_moved= false;
  perdura_index_rewind(m_cursor);
  return m_mrr.dsmrr_init(this, ranges, first, count, mode, buffer);
}

int ha_perdura::multi_range_read_next(range_id_t *range)
{
  m_walk.next_range= true;
  const int error= next_of_ranges(range);
  m_walk.next_range= false;
  return error;
}

int ha_perdura::next_of_ranges(range_id_t *range)
{
  /* The server goes on to the next range once it has found a row with a key that does not repeat.
     But the row may have had the key at the snapshot, and another one has it now. */
  if (unlikely(m_walk.has_moved && m_walk.uses_moved && mrr_have_range && mrr_cur_range.range_flag == (UNIQUE_RANGE | EQ_RANGE)))
  {
    const int error= read_range_next();
    if (error != HA_ERR_END_OF_FILE)
    {
      *range= mrr_cur_range.ptr;
      return error;
    }
  }
  return m_mrr.dsmrr_next(range);
}

int ha_perdura::multi_range_read_explain_info(uint mode, char *text, size_t room)
{
  return m_mrr.dsmrr_explain_info(mode, text, room);
}
