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

/* The table handler. The server makes one for each use of an open table; one thread at a time uses
   it. */

#ifndef HA_PERDURA_H
#define HA_PERDURA_H

#include "foreign_links.h"
#include "key_images.h"
#include "missing_features.h"
#include "perdura_plugin.h"
#include "pushed_range.h"
#include "virtual_columns.h"

#include <array>
#include <string>
#include <vector>

namespace perdura {
/* A change of rows by a foreign key, and the changes that have led to it. */
struct Cascade
{
  const Cascade *above;
  const TABLE_SHARE *table;
  bool is_update;
  /* The key that the change is made by, which holds; null for the statement's own change. */
  const Reference *by;
};

/* A row of the parent before and after, which is null if it was deleted. */
struct Row_change
{
  const uchar *before, *after;
};

/* The name of the index with this number; null if the table has none. */
const char *name_of_index(const TABLE *table, uint index);
/* Whether a table of this many rows has neither doubled nor halved since it had `known`; false if
   it was never counted. */
inline bool is_about(ha_rows rows, ha_rows known)
{
  return known && rows / 2 <= known && known / 2 <= rows;
}

/* The walk through an index, from index_init() to index_end(). */
struct Index_walk
{
  /* The rows are locked, so the key of each is compared with that of its entry. */
  bool compares_keys= false;
  /* Rows to be locked are looked for among the newest entries, as a replica's thread needs them. */
  bool newest= false;
  /* The server reads ranges, and checks its whole condition on each row. */
  bool ranges= false;
  /* There is one range. */
  bool one_range= false;
  /* The server has asked for the next row of the ranges, and not for a row by its key. */
  bool next_range= false;
  /* The search is for the first row of a range, beyond whose end the server wants none. */
  bool in_range= false;
  /* The first step of the search. */
  PerduraStep sought= PERDURA_STEP_NEXT;
  /* A row that has moved in the index is used where it is now. */
  bool uses_moved= false;
  /* Some row has moved since the walk began. */
  bool has_moved= false;

  /* Whether all rows of the search have the key that was searched for. */
  bool one_key() const { return sought != PERDURA_STEP_NEXT && sought != PERDURA_STEP_PREVIOUS; }
  /* The step to another row with that key. The server may look for one whole key after the other in
     descending order. */
  PerduraStep next_same() const { return sought == PERDURA_STEP_NEXT_SAME_DESCENDING ? sought : PERDURA_STEP_NEXT_SAME; }
};

/* Use of the entries by a search, so that it reads fewer rows or none. */
struct Entry_plan
{
  /* The parts of the key are all that the statement wants: the row is not read. */
  bool covers= false;
  /* There is a condition on the parts, checked before the row is read. */
  bool checks= false;
  Key_images::Parts parts= 0;

  /* Nothing is taken. */
  void clear() { covers= checks= false; }
  /* Asked for each row. */
  bool stops() const { return covers | checks; }
};
} // namespace perdura

class ha_perdura : public Server_handler
{
public:
  ha_perdura(handlerton *hton, TABLE_SHARE *share);
  ~ha_perdura() override;

  /* -- what the engine can do, maintenance (ha_perdura.cc) */
  Table_flags table_flags() const override;
  const char *index_type(uint index) override { return perdura::type_of_index(table_share, index); }
  uint max_supported_keys() const override { return MAX_KEY; }
  uint max_supported_key_length() const override { return PERDURA_KEY_BYTES_MAX; }
  uint max_supported_key_part_length() const override { return PERDURA_KEY_BYTES_MAX; }
  uint max_supported_record_length() const override { return HA_MAX_REC_LENGTH; }
  uint8 table_cache_type() override { return HA_CACHE_TBL_NOCACHE; }
  uint lock_count() const override { return 0; }
  int optimize(THD *, HA_CHECK_OPT *) override { return HA_ADMIN_TRY_ALTER; }
  int check(THD *thd, HA_CHECK_OPT *options) override;
  int repair(THD *, HA_CHECK_OPT *) override { return HA_ADMIN_TRY_ALTER; }
  int check_for_upgrade(HA_CHECK_OPT *options) override;
  bool get_error_message(int error, String *message) override;
  void print_error(int error, myf flags) override;

  /* -- definitions (ha_perdura_ddl.cc) */
  int create(const char *name, TABLE *form, HA_CREATE_INFO *info) override;
  int open(const char *name, int mode, uint test_if_locked) override;
  int close() override;
  int delete_table(const char *name) override;
  int rename_table(const char *from, const char *to) override;
  int truncate() override;
  enum row_type get_row_type() const override;
  bool check_if_incompatible_data(HA_CREATE_INFO *info, uint table_changes) override;

  /* -- alterations of indexes (ha_perdura_alter.cc) */
  enum_alter_inplace_result check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *info) override;
  bool prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override;
  bool inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override;
  bool commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit) override;

  /* -- statements and locks (ha_perdura_txn.cc) */
  int external_lock(THD *thd, int lock_type) override;
  int start_stmt(THD *thd, thr_lock_type lock_type) override;
  THR_LOCK_DATA **store_lock(THD *thd, THR_LOCK_DATA **to, thr_lock_type lock_type) override;
  void unlock_row() override;
  void try_semi_consistent_read(bool yes) override;
  bool was_semi_consistent_read() override;

  /* -- changes (ha_perdura_dml.cc, and ha_perdura_foreign.cc where there are foreign keys) */
  int extra(ha_extra_function operation) override;
  int write_row(const uchar *record) override;
  int update_row(const uchar *before, const uchar *after) override;
  int delete_row(const uchar *record) override;

  /* -- foreign keys (ha_perdura_references.cc; ha_perdura_foreign.cc for the rows of parents) */
  char *get_foreign_key_create_info() override;
  void free_foreign_key_create_info(char *text) override;
  int get_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) override;
  int get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) override;
  bool referenced_by_foreign_key() const noexcept override;
  bool can_switch_engines() override;
  bool is_fk_defined_on_table_or_index(uint index) override;
  bool get_foreign_dup_key(char *child_table, uint table_room, char *child_key, uint key_room) override;

  /* -- AUTO_INCREMENT (ha_perdura_auto.cc) */
  void get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first, ulonglong *count) override;
  int reset_auto_increment(ulonglong value) override;
  void update_create_info(HA_CREATE_INFO *given) override;

  /* -- reading (ha_perdura_scan.cc) */
  const COND *cond_push(const COND *condition) override;
  void init_table_handle_for_HANDLER() override;
  int rnd_init(bool scan) override;
  int rnd_next(uchar *record) override;
  int rnd_pos(uchar *record, uchar *position) override;
  int rnd_end() override;
  int calculate_checksum() override;
  void position(const uchar *record) override;
  int cmp_ref(const uchar *left, const uchar *right) override;
  handler *clone(const char *name, MEM_ROOT *root) override;
  void column_bitmaps_signal() override;
  int reset() override;

  /* -- reading through an index (ha_perdura_index.cc) */
  int index_init(uint index, bool sorted) override;
  int index_end() override;
  int index_read_map(uchar *record, const uchar *key, key_part_map parts, ha_rkey_function how) override;
  int index_read_last_map(uchar *record, const uchar *key, key_part_map parts) override;
  int index_next(uchar *record) override;
  int index_prev(uchar *record) override;
  int index_first(uchar *record) override;
  int index_last(uchar *record) override;
  int index_next_same(uchar *record, const uchar *key, uint length) override;
  int read_range_first(const key_range *begin, const key_range *end, bool is_equal, bool sorted) override;
  int read_range_next() override;

  /* -- entries without their rows (ha_perdura_entries.cc) */
  Item *idx_cond_push(uint index, Item *condition) override;

  /* -- several ranges at once (ha_perdura_mrr.cc) */
  DsMrr_impl *way_of_ranges() override { return m_locks ? nullptr : &m_mrr; }
  ha_rows multi_range_read_info(uint index, uint ranges, uint keys, uint parts, uint *buffer_size, uint *flags,
                                Cost_estimate *cost) override;
  int multi_range_read_init(RANGE_SEQ_IF *ranges, void *first, uint count, uint mode, HANDLER_BUFFER *buffer) override;
  int multi_range_read_next(range_id_t *range) override;
  int multi_range_read_explain_info(uint mode, char *text, size_t room) override;

  /* -- statistics and costs (ha_perdura_stats.cc) */
  int info(uint flag) override;
  ulong index_flags(uint index, uint part, bool all_parts) const override;
  int analyze(THD *thd, HA_CHECK_OPT *options) override;
  ha_rows records_in_range(uint index, const key_range *from, const key_range *to, page_range *pages) override;
  double cost_of_scan() override;
  const key_map *keys_to_use_for_scanning() override;
  double cost_of_rows(uint index, uint ranges, ha_rows rows) override;
  double cost_of_entries(uint index, uint ranges, ha_rows rows) override;
  double lock_cost() const override;
  double further_range_cost(uint index, ha_rows rows) const override;

protected:
  PerduraCursor *cursor() const { return m_cursor; }

private:
  bool has_old_bits() const;
  ulong flags_of_index(uint index, uint part, bool all_parts) const;
  void note_index_flags();
  int enter_statement(THD *thd, thr_lock_type lock_type);
  int failed(PerduraCode code);
  void choose_columns(uint index);
  void choose_row_locks();
  void leave_out_generated(uchar *record) const;
  int row_lock_error();
  void report_row_lock_error();
  bool is_used(const uchar *record);
  int next_to_lock(uchar *record, PerduraCode code);
  int search_again(uchar *record);
  void note_sizes(uint flag);
  double rows_beyond_few(uint index, ha_rows rows) const;
  void sample_indexes();
  void sample_index(uint index);
  int pass_auto_increment(const uchar *record, bool inserts);
  void check_auto_increment();
  PerduraCode keep_limit();
  int next_of_ranges(range_id_t *range);
  bool make_keys(const uchar *record, PerduraKey *keys);
  int update_alone(const uchar *before, const uchar *after);
  int delete_alone(const uchar *record);
  void refresh_references();
  int lock_parents();
  bool refers_anew(const perdura::Link &link, const uchar *before, const uchar *after) const;
  int check_parents(const uchar *before, const uchar *after, const perdura::Cascade *cascade);
  int refuse_row(const uchar *record, const PerduraKey *keys);
  int check_children(const perdura::Link &link, const uchar *record);
  int referred(const perdura::Link &link);
  int update_referring(const uchar *before, const uchar *after, const perdura::Cascade *above);
  int delete_referring(const uchar *record, const perdura::Cascade *above);
  int change_and_cascade(const uchar *before, const uchar *after, const std::vector<perdura::Link *> &links,
                         const perdura::Cascade &change);
  int cascade(perdura::Link &link, const std::string &key, const perdura::Row_change &row_change, const perdura::Cascade &change);
  int change_child(ha_perdura *child, uint64_t row, perdura::Link &link, const std::string &key, const perdura::Row_change &row_change,
                   const perdura::Cascade &change);
  bool follow(const perdura::Link &link, const perdura::Row_change &change, TABLE *child, bool is_null) const;
  int begin_cascade(THD *thd);
  bool find_changes(const uchar *before, const uchar *after, PerduraKeyChange *changes, size_t *count);
  int seek(uchar *record, const PerduraBound &bound, PerduraStep step, bool whole);
  int step(uchar *record, PerduraStep step);
  int entry_found(uchar *record, PerduraCode code);
  bool is_of_entry(uchar *record, PerduraCode code);
  bool is_sought(const PerduraKey &key);
  bool has_whole_condition() const;
  void compute_key(uchar *record);
  int row_found(uchar *record);
  void choose_entries(PerduraStep step);
  /* Whether the entries decide what is read: no keys are compared, and no rows locked. */
  bool reads_plainly() const { return !m_walk.compares_keys && m_lock_type < TL_FIRST_WRITE; }
  bool has_condition() const { return pushed_idx_cond && pushed_idx_cond_keyno == active_index; }
  /* Whether a search goes through the range that the server's condition on the index is, so that
     nothing is checked at its entries. */
  bool is_bounded(PerduraStep step) const
  {
    return step == PERDURA_STEP_NEXT && reads_plainly() && has_condition() && m_pushed.is_set();
  }
  PerduraBound range_end(PerduraStep step, PerduraBound *begin);
  int entry_used(uchar *record, PerduraCode code);
  bool reads_in_any_order();
  int begin_in_any_order();
  void end_in_any_order();
  check_result_t check_entry();

  PerduraCursor *m_cursor= nullptr;
  /* The name under which the table, or the partition, was opened. */
  std::string m_path;
  PerduraSession *m_session= nullptr;
  thr_lock_type m_lock_type= TL_UNLOCK;
  bool m_columns_chosen= false;
  /* The scan is for CHECKSUM TABLE, and the table has generated columns. */
  bool m_checksums= false;
  /* A replica's search for the row of an event: none, the one before it waits for earlier
     transactions, the one after. */
  enum class Search { NONE, FIRST, LAST } m_search= Search::NONE;
  /* The statement locks the rows that it reads, or those of them that it uses. */
  bool m_locks= false;
  /* The server says which rows of an UPDATE it is going to change, and reads again those that have
     changed. */
  bool m_semi_consistent= false;
  std::unique_ptr<perdura::Key_images> m_keys;
  /* Null if the table has no foreign keys and none refer to it. As of this version of the pool's
     foreign keys. */
  std::unique_ptr<perdura::Foreign_keys> m_foreign;
  uint64_t m_foreign_version= 0;
  /* The foreign key that was broken, as errors have it; the index of it in this table; the table
     and the key of a duplicate that a cascade met; and the statement in which the table was last
     prepared for cascades. */
  std::string m_broken;
  uint m_broken_index= 0;
  std::string m_duplicate_table, m_duplicate_key;
  query_id_t m_cascades_in= 0;
  /* Null if the table has no virtual columns. */
  std::unique_ptr<perdura::Virtual_columns> m_virtual;
  /* Answers of index_flags() for each part of each index, of the part alone and of all up to it,
     once the table is open: the server asks several times in a statement. */
  std::vector<std::array<ulong, 2>> m_index_flags;
  perdura::Index_walk m_walk;
  perdura::Entry_plan m_entries;
  perdura::Pushed_range m_pushed;
  /* Whether the order of the rows does not show, so that a walk through an index gets them from the
     scan of the table, with the columns that the statement uses or, where it counts rows, none. */
  enum class Any_order { NO, COLUMNS, NO_COLUMNS } m_any_order= Any_order::NO;
  DsMrr_impl m_mrr;
  /* The index that refused the last row, and the row that has the key; for a key that is too long,
     its index. */
  uint m_refused_index= 0;
  uint64_t m_duplicate_row= 0;
  /* Number of rows when the keys were last sampled, and whether the statement may sample them. */
  ha_rows m_sampled_rows= 0;
  bool m_may_sample= false;
  /* Indexes of so many groups that a GROUP BY goes through them. */
  key_map m_many_groups;
  /* Number of rows when the sizes of the table were last asked for. */
  ha_rows m_sized_rows= 0;
  /* Rows to come for which the server has wanted values of the AUTO_INCREMENT column. */
  ulonglong m_values_wanted= 0;
  /* The limit of the counter may be owed for rows that earlier builds wrote: asked until it is
     known to be stored, mostly once. */
  bool m_may_owe_limit= false;
  /* How values were last counted. */
  PerduraCounting m_counting= {0, 1};
  /* Outcome of locking a row that the server has found to match; the next read returns it, or, in a
     partition, the change of the row. */
  PerduraCode m_row_lock= PERDURA_CODE_OK;
  /* The condition that the rows used must satisfy, if evaluating it here has no effect. */
  const COND *m_condition= nullptr;
};

#endif
