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

/* Rows that others refer to: the checks of UPDATE and DELETE, and cascades. docs/foreign-keys.md
   says why no row is left without the one that it refers to.

   A cascade changes rows of the other table through the table that the server has opened for that:
   no trigger fires, and nothing of it is in the binary log. */

#include "ha_perdura.h"

using namespace perdura;

int ha_perdura::update_row(const uchar *before, const uchar *after)
{
  if (const int error= row_lock_error())
    return error;
  return likely(!m_foreign) ? update_alone(before, after) : update_referring(before, after, nullptr);
}

int ha_perdura::delete_row(const uchar *record)
{
  if (const int error= row_lock_error())
    return error;
  return likely(!m_foreign) ? delete_alone(record) : delete_referring(record, nullptr);
}

int ha_perdura::referred(const Link &link)
{
  m_broken= link.reference.description(table->in_use);
  return HA_ERR_ROW_IS_REFERENCED;
}

/* Fails if a row of the child refers to a record by a key. The record's row is locked, so no more
   come. */
int ha_perdura::check_children(const Link &link, const uchar *record)
{
  PerduraKey key;
  if (m_foreign->make(link, record, &key) != Key_images::Made::KEY)
    return 0;
  const PerduraCode code= perdura_reference_exists(link.rows(), m_session, link.key(key.bytes, key.length));
  if (likely(code == PERDURA_CODE_END))
    return 0;
  return code == PERDURA_CODE_OK ? referred(link) : failed(code);
}

/* Whether a key changes the rows of the child. */
static bool cascades(const Link &link, bool is_update)
{
  const enum_fk_option action= is_update ? link.reference.on_update : link.reference.on_delete;
  return action == FK_OPTION_CASCADE || action == FK_OPTION_SET_NULL;
}

int ha_perdura::update_referring(const uchar *before, const uchar *after, const Cascade *above)
{
  if (!checks_foreign_keys(table->in_use))
    return update_alone(before, after);
  if (int error= check_parents(before, after, above))
    return error;
  std::vector<Link *> links;
  for (size_t i= 0; m_foreign && i < m_foreign->referring.size(); i++)
  {
    Link &link= m_foreign->referring[i];
    if (!m_foreign->is_same(link, before, after) && link.find_other(table))
      links.push_back(&link);
  }
  const Cascade change= {above ? above->above : nullptr, table->s, true, above ? above->by : nullptr};
  return links.empty() ? update_alone(before, after) : change_and_cascade(before, after, links, change);
}

int ha_perdura::delete_referring(const uchar *record, const Cascade *above)
{
  if (!checks_foreign_keys(table->in_use))
    return delete_alone(record);
  std::vector<Link *> links;
  for (Link &link : m_foreign->referring)
    if (link.find_other(table))
      links.push_back(&link);
  const Cascade change= {above ? above->above : nullptr, table->s, false, above ? above->by : nullptr};
  return links.empty() ? delete_alone(record) : change_and_cascade(record, nullptr, links, change);
}

/* Whether the server may go on after an error without taking the statement back: for IGNORE, in a
   function or trigger whose handler catches the error, or on a replica that passes it by. */
static bool goes_on_after_errors(THD *thd)
{
  const bool passes= use_slave_mask || slave_exec_mode_options & (1ULL << SLAVE_EXEC_MODE_IDEMPOTENT);
  return thd->lex->ignore || thd->in_sub_stmt || (thd->slave_thread && passes);
}

/* Updates a row, or deletes it if there is no record `after`, and does what the keys `links` ask
   for. If the server goes on after an error, what was done for the row is taken back. */
int ha_perdura::change_and_cascade(const uchar *before, const uchar *after, const std::vector<Link *> &links, const Cascade &change)
{
  PerduraCode code= perdura_keep(m_cursor, m_session);
  if (code != PERDURA_CODE_OK)
    return failed(code);
  const auto changes_child= [=](const Link *link) { return cascades(*link, after != nullptr) || m_foreign->is_own_child(*link, before); };
  const auto change_row= [=] { return after ? update_alone(before, after) : delete_alone(before); };
  if (std::none_of(links.begin(), links.end(), changes_child))
  {
    for (const Link *link : links)
      if (int error= check_children(*link, before))
        return error;
    return change_row();
  }
  uint64_t savepoint= 0;
  const bool goes_back= !change.above && goes_on_after_errors(table->in_use);
  if (goes_back && (code= perdura_savepoint(m_session, &savepoint)) != PERDURA_CODE_OK)
    return failed(code);
  /* A cascade may come back to this table, and use its records and keys. */
  struct Due
  {
    std::string key;
    bool is_own_child;
  };
  std::vector<Due> due;
  for (const Link *link : links)
  {
    const bool is_own_child= m_foreign->is_own_child_still(*link, before, after);
    PerduraKey key;
    const bool is_key= m_foreign->make(*link, before, &key) == Key_images::Made::KEY;
    due.push_back({is_key ? std::string(reinterpret_cast<const char *>(key.bytes), key.length) : std::string(), is_own_child});
  }
  int error= change_row();
  for (size_t i= 0; !error && i < links.size(); i++)
    if (due[i].is_own_child && (after || !cascades(*links[i], false)))
      error= referred(*links[i]);
    else if (!due[i].key.empty())
      error= cascade(*links[i], due[i].key, {before, after}, change);
  if (error && goes_back && perdura_rollback_to_savepoint(m_session, savepoint) != PERDURA_CODE_OK)
    return HA_ERR_INTERNAL_ERROR;
  return error;
}

/* The deepest chain of changes, as InnoDB has it. */
static constexpr uint CHANGES_MAX= 15;

/* Does what a key asks for once the row that it leads to by `key` has changed. */
int ha_perdura::cascade(Link &link, const std::string &key, const Row_change &row_change, const Cascade &change)
{
  const PerduraReferenceKey sought= link.key(reinterpret_cast<const uchar *>(key.data()), key.length());
  if (!cascades(link, change.is_update))
  {
    const PerduraCode found= perdura_reference_exists(link.rows(), m_session, sought);
    if (found == PERDURA_CODE_OK)
      return referred(link);
    return found == PERDURA_CODE_END ? 0 : failed(found);
  }
  Referring_rows referring;
  PerduraCode code= referring.look_up(link, m_session, sought);
  if (code != PERDURA_CODE_OK)
    return code == PERDURA_CODE_END ? 0 : failed(code);
  const std::string &database= link.other().database, &name= link.other().table;
  TABLE *open= find_fk_open_table(table->in_use, database.c_str(), database.length(), name.c_str(), name.length());
  if (!open || open->file->ht != ht)
  {
    my_printf_error(ER_INTERNAL_ERROR, "Perdura: the server has not opened table %s.%s, into which a foreign key cascades", MYF(0),
                    database.c_str(), name.c_str());
    return HA_ERR_GENERIC;
  }
  ha_perdura *child= static_cast<ha_perdura *>(open->file);
  if (int error= child->begin_cascade(table->in_use))
    return error;
  const bool deletes= !change.is_update && link.reference.on_delete == FK_OPTION_CASCADE;
  uint depth= 1;
  for (const Cascade *above= &change; above; above= above->above, depth++)
    if (!deletes && above->is_update && above->table == open->s)
      /* The table is being updated already: that would have no end. */
      return referred(link);
  if (depth > CHANGES_MAX)
  {
    referred(link);
    return HA_ERR_FK_DEPTH_EXCEEDED;
  }
  while ((code= referring.next(m_session)) == PERDURA_CODE_OK)
    for (const uint64_t row : referring.rows())
    {
      if (int error= change_child(child, row, link, key, row_change, change))
        return error;
      if (unlikely(thd_kill_level(table->in_use) != THD_IS_NOT_KILLED))
        return HA_ERR_ABORTED_BY_USER;
    }
  return code == PERDURA_CODE_END ? 0 : failed(code);
}

/* Prepares the table, which the server has opened for cascades, for changes of its rows. The list
   of its foreign keys stays the same until the statement ends. */
int ha_perdura::begin_cascade(THD *thd)
{
  if (m_cascades_in == thd->query_id)
    return 0;
  if (int error= enter_statement(thd, TL_WRITE))
    return error;
  if (m_foreign && checks_foreign_keys(thd))
    if (int error= lock_parents())
      return error;
  table->use_all_columns();
  m_columns_chosen= false;
  m_cascades_in= thd->query_id;
  return 0;
}

/* Gives a child's record the columns that have changed in the parent's, or NULL. False if the child
   cannot have them. */
bool ha_perdura::follow(const Link &link, const Row_change &change, TABLE *child, bool is_null) const
{
  const TABLE *parent= table;
  const uchar *after= change.after;
  const my_ptrdiff_t place= after ? after - parent->record[0] : 0;
  for (size_t i= 0; i < link.reference.columns.size(); i++)
  {
    if (!is_null && m_foreign->is_same_column(link, i, change.before, after))
      continue;
    Field *to= child->field[link.other_column(i)];
    Field *from= parent->field[link.own_column(i)];
    if (is_null || from->is_null_in_record(after))
    {
      if (!to->real_maybe_null())
        return false;
      to->set_null();
      continue;
    }
    const enum_check_fields checks= child->in_use->count_cuted_fields;
    child->in_use->count_cuted_fields= CHECK_FIELD_IGNORE;
    from->move_field_offset(place);
    to->set_notnull();
    const int refused= field_conv(to, from);
    from->move_field_offset(-place);
    child->in_use->count_cuted_fields= checks;
    if (refused)
      return false;
  }
  return true;
}

/* Deletes a row of the child, or has it follow the parent's. The row is left alone if it no longer
   has the key. */
int ha_perdura::change_child(ha_perdura *child, uint64_t row, Link &link, const std::string &key, const Row_change &row_change,
                             const Cascade &change)
{
  TABLE *target= child->table;
  uchar *before= target->record[1];
  perdura_cursor_set_columns(child->m_cursor, nullptr);
  PerduraCode code= perdura_read_locked(child->m_cursor, child->m_session, row, before);
  if (code != PERDURA_CODE_OK)
    return code == PERDURA_CODE_END ? 0 : failed(code);
  if (child->m_virtual)
  {
    child->m_virtual->choose(&target->s->all_set, MAX_KEY);
    child->m_virtual->compute_chosen(child, before);
  }
  PerduraKey now;
  child->m_keys->make(link.index(), before, Key_images::Slot::SECOND, &now);
  if (now.length < key.length() || memcmp(now.bytes, key.data(), key.length()))
    return 0;
  const Reference &by= link.reference;
  int error;
  if (!change.is_update && by.on_delete == FK_OPTION_CASCADE)
  {
    const Cascade below= {&change, target->s, false, &by};
    error= child->m_foreign ? child->delete_referring(before, &below) : child->delete_alone(before);
  }
  else
  {
    const enum_fk_option action= change.is_update ? by.on_update : by.on_delete;
    memcpy(target->record[0], before, target->s->reclength);
    if (!follow(link, row_change, target, action == FK_OPTION_SET_NULL))
      return referred(link);
    if (target->vfield && target->update_virtual_fields(child, VCOL_UPDATE_FOR_WRITE))
      return HA_ERR_GENERIC;
    const Cascade below= {&change, target->s, true, &by};
    error= child->m_foreign ? child->update_referring(before, target->record[0], &below)
                            : child->update_alone(before, target->record[0]);
    if (error == HA_ERR_RECORD_IS_THE_SAME)
      error= 0;
  }
  if (error == HA_ERR_FOUND_DUPP_KEY)
  {
    m_duplicate_table= target->s->table_name.str;
    const char *index= name_of_index(target, child->m_refused_index);
    m_duplicate_key= index ? index : "";
    return HA_ERR_FOREIGN_DUPLICATE_KEY;
  }
  if (error)
  {
    m_broken= child->m_broken;
    m_duplicate_table= child->m_duplicate_table;
    m_duplicate_key= child->m_duplicate_key;
  }
  return error;
}
