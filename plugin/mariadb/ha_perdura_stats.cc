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

/* Statistics and costs for the optimizer: sizes of the table, abilities of its indexes, how many
   rows have the same key, found by samples, or lie in a range, and what reads cost. */

#include "ha_perdura.h"

#include <cmath>

using namespace perdura;

/* Rows with the same key come in the order of their positions. */
ulong ha_perdura::flags_of_index(uint index, uint part, bool all_parts) const
{
  const ulong flags= HA_READ_NEXT | HA_READ_PREV | HA_READ_ORDER | HA_READ_RANGE;
  const KEY &key= table_share->key_info[index];
  if (key.algorithm == HA_KEY_ALG_LONG_HASH)
    return flags;
  const auto has_way_back= [&](const KEY_PART_INFO &info) {
    return way_back(table_share->field[info.fieldnr - 1], info) != Way_back::NONE;
  };
  if (!all_parts)
    return flags | (has_way_back(key.key_part[part]) ? HA_KEYREAD_ONLY : 0);
  const bool restores_all= std::all_of(key.key_part, key.key_part + part + 1, has_way_back);
  const bool restores_any= std::any_of(key.key_part, key.key_part + key.user_defined_key_parts, has_way_back);
  return flags | (restores_all ? HA_KEYREAD_ONLY : 0) | (restores_any ? HA_DO_INDEX_COND_PUSHDOWN : 0);
}

void ha_perdura::note_index_flags()
{
  m_index_flags.clear();
  for (uint index= 0; index < table_share->keys; index++)
    for (uint part= 0; part < MAX_REF_PARTS && part < table_share->key_info[index].user_defined_key_parts; part++)
    {
      m_index_flags.resize(index * MAX_REF_PARTS + part + 1);
      m_index_flags.back()= {flags_of_index(index, part, false), flags_of_index(index, part, true)};
    }
}

/* Called also for a share whose table is not open yet. */
ulong ha_perdura::index_flags(uint index, uint part, bool all_parts) const
{
  const size_t place= static_cast<size_t>(index) * MAX_REF_PARTS + part;
  const bool is_known= part < MAX_REF_PARTS && place < m_index_flags.size() && m_index_flags[place][all_parts];
  return likely(is_known) ? m_index_flags[place][all_parts] : flags_of_index(index, part, all_parts);
}

/* Keys that are looked at in each index: so many that the mean over keys with one to seven rows
   each, as in TPC-H's lineitem, is off by an eighth. */
constexpr uint SAMPLES= 32;

/* Samples the indexes if the table has grown or shrunk a lot since it was done last, which takes
   three searches for each sample and column. */
void ha_perdura::sample_indexes()
{
  const ha_rows rows= std::max<ha_rows>(stats.records, 1);
  if (is_about(rows, m_sampled_rows))
    return;
  m_sampled_rows= rows;
  for (uint index= 0; index < m_keys->count(); index++)
    sample_index(index);
}

/* When a definition was made. Its id is a version 1 UUID, which begins with the time in units of
   100 ns since 1582; the pool stores the id, so the time moves along with the pool. 0 if the id is
   of another kind. */
static time_t defined_at(const LEX_CUSTRING &id)
{
  constexpr ulonglong UNITS= 10000000, FROM_1582_TO_1970= 12219292800ULL;
  if (id.length != MY_UUID_SIZE || id.str[6] >> 4 != 1)
    return 0;
  const ulonglong time= (static_cast<ulonglong>(mi_uint2korr(id.str + 6) & 0xfff) << 48) |
                        (static_cast<ulonglong>(mi_uint2korr(id.str + 4)) << 32) | mi_uint4korr(id.str);
  const ulonglong seconds= time / UNITS;
  return seconds < FROM_1582_TO_1970 ? 0 : static_cast<time_t>(seconds - FROM_1582_TO_1970);
}

/* Refreshes the table's sizes. The optimizer asks in every statement and needs only estimates, so
   for it they are refreshed only once the table has doubled or halved. */
void ha_perdura::note_sizes(uint flag)
{
  const bool is_exact= !(flag & HA_STATUS_NO_LOCK) || flag & (HA_STATUS_TIME | HA_STATUS_VARIABLE_EXTRA);
  const ha_rows rows= stats.records;
  if (likely(!is_exact && is_about(rows, m_sized_rows)))
    return;
  PerduraTableInfo found;
  perdura_table_info(m_cursor, &found);
  m_sized_rows= rows;
  stats.deleted= 0;
  stats.data_file_length= found.data_bytes - found.free_bytes;
  stats.delete_length= found.free_bytes;
  stats.mean_rec_length= rows ? static_cast<ulong>(stats.data_file_length / rows) : 0;
}

int ha_perdura::info(uint flag)
{
  if (flag & HA_STATUS_VARIABLE)
  {
    /* Outside of a statement the session may be another thread's. */
    stats.records= perdura_table_rows(m_cursor, m_may_sample ? m_session : nullptr);
    note_sizes(flag);
    /* The optimizer takes 0 for exact, and the number is an estimate. */
    if (stats.records == 0 && !(flag & (HA_STATUS_TIME | HA_STATUS_OPEN)))
      stats.records= 1;
    if (m_may_sample)
      sample_indexes();
  }
  if (flag & HA_STATUS_TIME)
  {
    PerduraTableInfo found;
    perdura_table_info(m_cursor, &found);
    stats.create_time= defined_at(table->s->tabledef_version);
    stats.update_time= static_cast<time_t>(found.changed_at);
  }
  if (flag & HA_STATUS_CONST)
  {
    stats.block_size= 16 * 1024;
    m_sampled_rows= 0;
  }
  if (flag & HA_STATUS_AUTO && table->found_next_number_field)
  {
    uint64_t next= 0;
    perdura_counter_next(pool, m_cursor, &next);
    stats.auto_increment_value= next;
  }
  if (flag & HA_STATUS_ERRKEY)
  {
    errkey= m_refused_index;
    memcpy(dup_ref, &m_duplicate_row, sizeof(m_duplicate_row));
  }
  return 0;
}

/* ANALYZE TABLE samples the indexes whether or not the table has grown, so that SHOW INDEX tells
   what it has found. */
int ha_perdura::analyze(THD *, HA_CHECK_OPT *)
{
  m_sampled_rows= 0;
  return info(HA_STATUS_VARIABLE) ? HA_ADMIN_FAILED : HA_ADMIN_OK;
}

/* For the first columns of an index, and the first two, and so on: how many rows have the same
   values, on average over the values. A sample comes upon a value that many rows have more often,
   so the mean is the harmonic one. Half of it is told: the optimizer assumes that a table whose
   columns it knows nothing of is filtered by no condition, which makes a join that begins with the
   large table look as good as one that begins with the small, filtered one. InnoDB tells half of it
   too. */
void ha_perdura::sample_index(uint index)
{
  const KEY &key= table->key_info[index];
  const uint parts= key.user_defined_key_parts;
  double values[MAX_REF_PARTS]= {};
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
      values[part]+= 1.0 / static_cast<double>(std::max<uint64_t>(found, 1));
    }
  }
  for (uint part= 0; part < parts; part++)
    key.rec_per_key[part]= samples ? std::max(1L, std::lround(samples / values[part] / 2)) : 0;
  if (key.flags & HA_NOSAME)
    key.rec_per_key[parts - 1]= 1;
}

/* The optimizer takes 0 for certain. */
ha_rows ha_perdura::records_in_range(uint index, const key_range *from, const key_range *to, page_range *)
{
  PerduraBound bounds[2]= {NO_BOUND, NO_BOUND};
  if (from)
  {
    bool whole;
    const PerduraKey key= m_keys->search(index, from->key, from->keypart_map, Key_images::Slot::FIRST, &whole);
    const bool after= from->flag == HA_READ_AFTER_KEY;
    bounds[0]= {after ? PERDURA_BOUND_KIND_EXCLUDED : PERDURA_BOUND_KIND_INCLUDED, key.bytes, key.length};
  }
  if (to)
    bounds[1]= m_keys->end_of(index, *to);
  uint64_t rows;
  if (perdura_index_estimate(m_cursor, m_session, index, bounds[0], bounds[1], &rows) != PERDURA_CODE_OK)
    return HA_POS_ERROR;
  return std::max<ha_rows>(rows, 1);
}

/* Costs, but for locks those of servers before 11.0; later ones take constants (server.h). The
   server sets some of them itself, for a medium with seeks: 1 for a row found by a whole
   unique key, 0.2 for a row that it looks at. The latter is ten times what it takes here, beside
   the former, so true times of a scan and of searches would make the server scan the larger table
   of a join and find the rows of the smaller one by their keys; costs are chosen in proportion to
   those two, and so that joins of TPC-H get the plans that are best here (the bench `tpch`; between
   0.5 and 0.7 for a row with its search the plans are the same). A scan of the table costs little
   beside 0.2. A row by its entry costs half of a row found by a unique key, as long as few rows
   have the key. If a key has more than a fiftieth of the table's rows, those beyond cost as much as
   one found by a unique key. The ranges of a condition compete with the scan of the table, which
   takes 0.1 us a row beside 1.3 us for a row anywhere, so there what is beyond costs more: the
   break-even is at a tenth of the rows. That would be wrong for a ref from a small table with a
   condition, whose rows the server overestimates (TPC-DS, queries 90, 93 and 94).
   A row that is locked costs as much as one found by a unique key, not for the time that takes but
   for the statements that wait for it: a scan locks all rows of the table, an index those of its
   range, or as many as ORDER BY and LIMIT take. */
constexpr double SCANNED_ROW= 0.02, PAGE= 1, PAGE_BYTES= 16384, ENTRY= 0.05, ENTRY_BYTE= 0.0005, ROW_OF_ENTRY= 0.5, SEARCH= 0.5,
                 LOCKED_ROW= 1;
constexpr ha_rows FEW_GROUPS= 250000;
constexpr double FEW_ROWS_SHARE= 0.02, ROW_BEYOND_FEW= 0.5, RANGE_ROW_BEYOND_FEW= 1.5;

/* How many rows of a range an UPDATE or DELETE takes that goes in the order of the index and ends
   at its LIMIT. The server reckons with the whole range when it chooses it, and would rather scan
   the table and sort. */
static ha_rows rows_taken(const TABLE *table, uint index, ha_rows rows)
{
  THD *thd= table->in_use;
  const int command= thd_sql_command(thd);
  if ((command != SQLCOM_UPDATE && command != SQLCOM_DELETE) || index >= table->s->keys)
    return rows;
  SELECT_LEX *select= thd->lex->first_select_lex();
  Item *limit= select->limit_params.select_limit;
  if (!select->limit_params.explicit_limit || !limit || !limit->fixed())
    return rows;
  if (const ORDER *order= select->order_list.first)
  {
    Item *first= (*order->item)->real_item();
    if (first->type() != Item::FIELD_ITEM)
      return rows;
    const Field *field= static_cast<Item_field *>(first)->field;
    if (field->table != table || field->field_index + 1U != table->key_info[index].key_part->fieldnr)
      return rows;
  }
  return std::min<ha_rows>(rows, limit->val_uint());
}

/* The indexes through which a GROUP BY goes that they begin with, which needs no temporary table
   then. Rows ahead are asked for, and those of an index in whose order they were inserted lie
   beside each other: the 6,000,000 rows of a lineitem with 1,500,000 orders take 2 s so, through a
   temporary table 30 s, since it does not fit in memory. With 200,000 groups both take the same
   time; with 10,000 the temporary table takes less than half. An ORDER BY without LIMIT scans the
   table and sorts all the same. */
const key_map *ha_perdura::keys_to_use_for_scanning()
{
  m_many_groups.clear_all();
  for (uint index= 0; index < table->s->keys; index++)
  {
    const ulong rows= table->key_info[index].rec_per_key[0];
    if (rows && stats.records / (2 * rows) > FEW_GROUPS)
      m_many_groups.set_bit(index);
  }
  return &m_many_groups;
}

double ha_perdura::cost_of_scan()
{
  const double pages= static_cast<double>(stats.data_file_length) / PAGE_BYTES;
  const double row= SCANNED_ROW + lock_cost();
  return PAGE + PAGE * pages + row * static_cast<double>(stats.records);
}

/* Cost of the lock that the statement takes of each row it reads. */
double ha_perdura::lock_cost() const
{
  return m_locks ? LOCKED_ROW : 0;
}

/* Rows of those taken that are more than a small share of the table. */
double ha_perdura::rows_beyond_few(uint index, ha_rows rows) const
{
  const double taken= static_cast<double>(rows_taken(table, index, rows));
  return std::max(0.0, taken - FEW_ROWS_SHARE * static_cast<double>(stats.records));
}

double ha_perdura::cost_of_rows(uint index, uint ranges, ha_rows rows)
{
  const double taken= static_cast<double>(rows_taken(table, index, rows));
  return cost_of_entries(index, ranges, rows) + ROW_OF_ENTRY * taken + ROW_BEYOND_FEW * rows_beyond_few(index, rows);
}

/* Cost of rows that ranges of a condition have, beyond what cost_of_rows() says of them. */
double ha_perdura::further_range_cost(uint index, ha_rows rows) const
{
  return RANGE_ROW_BEYOND_FEW * rows_beyond_few(index, rows);
}

double ha_perdura::cost_of_entries(uint index, uint ranges, ha_rows rows)
{
  const double bytes= index < table->s->keys ? table->key_info[index].key_length : 0;
  const double entry= ENTRY + ENTRY_BYTE * bytes + lock_cost();
  return SEARCH * ranges + entry * static_cast<double>(rows_taken(table, index, rows));
}
