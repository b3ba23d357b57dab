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

/* What the optimizer is told about keys: how many rows have the same one, found by samples. */

#include "ha_perdura.h"

using namespace perdura;

/* Keys that are looked at in each index. */
constexpr uint SAMPLES= 8;

/* Samples the indexes if the table has grown or shrunk a lot since it was done last, which takes some microseconds for each column. */
void ha_perdura::sample_indexes()
{
  const ha_rows rows= std::max<ha_rows>(stats.records, 1);
  if (m_sampled_rows && rows / 2 <= m_sampled_rows && m_sampled_rows / 2 <= rows)
    return;
  m_sampled_rows= rows;
  for (uint index= 0; index < table->s->keys; index++)
    sample_index(index);
}

/* For the first columns of an index, and the first two, and so on: how many rows have the same values as a sample, on average. */
void ha_perdura::sample_index(uint index)
{
  const KEY &key= table->key_info[index];
  const uint parts= key.user_defined_key_parts;
  uint64_t rows[MAX_REF_PARTS]= {};
  uint samples= 0;
  for (; samples < SAMPLES; samples++)
  {
    uchar bytes[PERDURA_KEY_BYTES_MAX];
    size_t length, end= 0;
    if (perdura_index_sample(m_cursor, m_session, index, 2 * samples + 1, 2 * SAMPLES, bytes, &length) != PERDURA_CODE_OK)
      break;
    for (uint part= 0; part < parts; part++)
    {
      end= m_keys->part_end(index, part, bytes, length, end);
      const PerduraBound bound= {PERDURA_BOUND_KIND_INCLUDED, bytes, static_cast<uint32_t>(end)};
      uint64_t found= 0;
      perdura_index_estimate(m_cursor, m_session, index, bound, bound, &found);
      rows[part]+= std::max<uint64_t>(found, 1);
    }
  }
  for (uint part= 0; part < parts; part++)
    key.rec_per_key[part]= samples ? static_cast<ulong>((rows[part] + samples / 2) / samples) : 0;
  if (key.flags & HA_NOSAME)
    key.rec_per_key[parts - 1]= 1;
}
