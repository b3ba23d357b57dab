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

/* Foreign keys of an open table: what the server asks about them, and the checks and cascades of
   rows. docs/foreign-keys.md says why no row is left without the one that it refers to.

   A cascade changes rows of the other table through the table that the server has opened for that:
   no trigger fires, and nothing of it is in the binary log. */

#include "ha_perdura.h"

using namespace perdura;

/* -- what the server asks */

/* Takes over what has changed since the list was made. */
void ha_perdura::refresh_references()
{
  const uint64_t version= perdura_foreign_keys_version(pool);
  if (likely(version == m_foreign_version) || !m_cursor)
    return;
  m_foreign_version= version;
  std::vector<Reference> own= references_of(m_path.c_str(), PERDURA_KEYS_OF_CHILD);
  std::vector<Reference> referring= references_of(m_path.c_str(), PERDURA_KEYS_OF_PARENT);
  m_foreign.reset();
  if (!own.empty() || !referring.empty())
    m_foreign= std::make_unique<Foreign_keys>(table, std::move(own), std::move(referring));
}

char *ha_perdura::get_foreign_key_create_info()
{
  refresh_references();
  if (!m_foreign)
    return nullptr;
  std::string text;
  for (const Link &link : m_foreign->own)
    text+= ",\n  " + link.reference.clause(ha_thd());
  return my_strdup(PSI_NOT_INSTRUMENTED, text.c_str(), MYF(MY_WME));
}

void ha_perdura::free_foreign_key_create_info(char *text)
{
  my_free(text);
}

static LEX_CSTRING *server_text(THD *thd, const std::string &text)
{
  return thd_make_lex_string(thd, nullptr, text.c_str(), text.length(), 1);
}

/* RESTRICT is what holds where nothing is said. */
static enum_fk_option shown_action(enum_fk_option action)
{
  return action == FK_OPTION_UNDEF ? FK_OPTION_RESTRICT : action;
}

static FOREIGN_KEY_INFO *server_key(THD *thd, const Link *link)
{
  void *place= thd->alloc(sizeof(FOREIGN_KEY_INFO));
  if (!place)
    return nullptr;
  FOREIGN_KEY_INFO *info= new (place) FOREIGN_KEY_INFO();
  const Reference &reference= link->reference;
  info->foreign_id= server_text(thd, reference.name);
  info->foreign_db= server_text(thd, reference.child.database);
  info->foreign_table= server_text(thd, reference.child.table);
  info->referenced_db= server_text(thd, reference.parent.database);
  info->referenced_table= server_text(thd, reference.parent.table);
  info->update_method= shown_action(reference.on_update);
  info->delete_method= shown_action(reference.on_delete);
  Table_share child(thd, reference.child), parent(thd, reference.parent);
  const uint count= static_cast<uint>(reference.columns.size());
  for (uint i= 0; i < count; i++)
  {
    info->foreign_fields.push_back(server_text(thd, reference.columns[i]), thd->mem_root);
    info->referenced_fields.push_back(server_text(thd, reference.parent_columns[i]), thd->mem_root);
    const auto has_null= [](TABLE_SHARE *share, const std::string &name) {
      const uint column= share ? column_of(share, name) : UINT_MAX;
      return column != UINT_MAX && share->field[column]->real_maybe_null();
    };
    if (has_null(child.share(), reference.columns[i]))
      info->set_nullable(thd, false, i, count);
    if (has_null(parent.share(), reference.parent_columns[i]))
      info->set_nullable(thd, true, i, count);
  }
  info->referenced_key_name= nullptr;
  if (TABLE_SHARE *share= parent.share())
  {
    const uint index= index_of(share, share->key_info, reference.parent_columns);
    if (index != NO_KEY)
      info->referenced_key_name= server_text(thd, share->key_info[index].name.str);
  }
  return info;
}

static int give_list(THD *thd, const std::vector<Link> &links, List<FOREIGN_KEY_INFO> *list)
{
  for (const Link &link : links)
  {
    FOREIGN_KEY_INFO *info= server_key(thd, &link);
    if (!info || list->push_back(info, thd->mem_root))
      return HA_ERR_OUT_OF_MEM;
  }
  return 0;
}

int ha_perdura::get_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list)
{
  refresh_references();
  return m_foreign ? give_list(thd, m_foreign->own, list) : 0;
}

int ha_perdura::get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list)
{
  refresh_references();
  return m_foreign ? give_list(thd, m_foreign->referring, list) : 0;
}

/* The server opens the tables that a statement may cascade into before it begins. */
bool ha_perdura::referenced_by_foreign_key() const noexcept
{
  const_cast<ha_perdura *>(this)->refresh_references();
  return m_foreign && !m_foreign->referring.empty();
}

bool ha_perdura::can_switch_engines()
{
  refresh_references();
  return !m_foreign;
}

bool ha_perdura::is_fk_defined_on_table_or_index(uint index)
{
  refresh_references();
  if (!m_foreign || index == MAX_KEY)
    return m_foreign != nullptr;
  const auto uses= [this, index](const Link &link) { return index_of(table->s, table->key_info, link.own_columns()) == index; };
  return std::any_of(m_foreign->own.begin(), m_foreign->own.end(), uses) ||
         std::any_of(m_foreign->referring.begin(), m_foreign->referring.end(), uses);
}

bool ha_perdura::get_foreign_dup_key(char *child_table, uint table_room, char *child_key, uint key_room)
{
  if (m_duplicate_table.empty())
    return false;
  strmake(child_table, m_duplicate_table.c_str(), table_room - 1);
  strmake(child_key, m_duplicate_key.c_str(), key_room - 1);
  return true;
}

/* -- rows that refer to others */

/* Keeps DDL off the tables that this one refers to. A rename of one of them that came before is
   noticed. */
int ha_perdura::lock_parents()
{
  THD *thd= table->in_use;
  while (m_foreign && unlikely(!m_foreign->has_locked_parents(thd)))
  {
    if (!m_foreign->lock_parents(thd))
      return HA_ERR_GENERIC;
    refresh_references();
  }
  return 0;
}

/* Checks that the rows exist that a new row, or an updated one, refers to, and locks them. A change
   that a foreign key makes need not be checked by that key. */
int ha_perdura::check_parents(const uchar *before, const uchar *after, const Cascade *cascade)
{
  if (!checks_foreign_keys(table->in_use))
    return 0;
  for (size_t i= 0; m_foreign && i < m_foreign->own.size(); i++)
  {
    if (m_foreign->own[i].reference.is_carried || (before && m_foreign->is_same(m_foreign->own[i], before, after)))
      continue;
    if (cascade && cascade->by && cascade->by->name == m_foreign->own[i].reference.name)
      continue;
    if (!m_foreign->has_locked_parents(table->in_use))
    {
      if (int error= lock_parents())
        return error;
      /* The list may be another one. */
      return check_parents(before, after, cascade);
    }
    Link &link= m_foreign->own[i];
    const bool has_other= link.find_other(table);
    PerduraKey key;
    Key_images::Made made= m_foreign->make(link, after, &key);
    if (made == Key_images::Made::NULL_COLUMN || (has_other && m_foreign->refers_to_itself(link, after)))
      continue;
    PerduraCode code= PERDURA_CODE_END;
    if (has_other && made == Key_images::Made::KEY)
      code= perdura_reference_lock(link.rows(), m_session, link.key(key.bytes, key.length));
    if (likely(code == PERDURA_CODE_OK))
      continue;
    if (code != PERDURA_CODE_END)
      return failed(code);
    m_broken= link.reference.description(table->in_use);
    m_broken_index= index_of(table->s, table->key_info, link.own_columns());
    return HA_ERR_NO_REFERENCED_ROW;
  }
  return 0;
}

/* A new row refers to one that is not there. If its key is there already in an index that comes
   before that of the foreign key, that is the error, which REPLACE and the like go on from. */
int ha_perdura::refuse_row(const uchar *record, const PerduraKey *keys)
{
  uint64_t savepoint;
  PerduraCode code= perdura_savepoint(m_session, &savepoint);
  if (code != PERDURA_CODE_OK)
    return failed(code);
  code= perdura_insert(m_cursor, m_session, record, keys);
  const int error= code == PERDURA_CODE_OK ? 0 : failed(code);
  if (error == HA_ERR_FOUND_DUPP_KEY && (m_refused_index == table->s->primary_key || m_refused_index < m_broken_index))
    return error;
  if (error && error != HA_ERR_FOUND_DUPP_KEY)
    return error;
  if ((code= perdura_rollback_to_savepoint(m_session, savepoint)) != PERDURA_CODE_OK)
    return failed(code);
  return HA_ERR_NO_REFERENCED_ROW;
}

/* -- rows that others refer to */

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
  const PerduraCode code= perdura_reference_exists(link.rows(), m_session, link.key(key.bytes, key.length), 0);
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

/* Updates a row, or deletes it if there is no record `after`, and does what the keys `links` ask
   for. With IGNORE the server goes on after an error, so what was done for the row is taken
   back. */
int ha_perdura::change_and_cascade(const uchar *before, const uchar *after, const std::vector<Link *> &links, const Cascade &change)
{
  PerduraCode code= perdura_keep(m_cursor, m_session);
  if (code != PERDURA_CODE_OK)
    return failed(code);
  const auto changes_child= [after](const Link *link) { return cascades(*link, after != nullptr); };
  const auto change_row= [=] { return after ? update_alone(before, after) : delete_alone(before); };
  if (std::none_of(links.begin(), links.end(), changes_child))
  {
    for (const Link *link : links)
      if (int error= check_children(*link, before))
        return error;
    return change_row();
  }
  uint64_t savepoint= 0;
  const bool goes_back= !change.above && table->in_use->lex->ignore;
  if (goes_back && (code= perdura_savepoint(m_session, &savepoint)) != PERDURA_CODE_OK)
    return failed(code);
  /* A cascade may come back to this table, and use its records and keys. */
  std::vector<std::string> keys;
  for (const Link *link : links)
  {
    PerduraKey key;
    const bool is_key= m_foreign->make(*link, before, &key) == Key_images::Made::KEY;
    keys.emplace_back(is_key ? std::string(reinterpret_cast<const char *>(key.bytes), key.length) : std::string());
  }
  int error= change_row();
  for (size_t i= 0; !error && i < links.size(); i++)
    if (!keys[i].empty())
      error= cascade(*links[i], keys[i], {before, after}, change);
  if (error && goes_back && perdura_rollback_to_savepoint(m_session, savepoint) != PERDURA_CODE_OK)
    return HA_ERR_INTERNAL_ERROR;
  return error;
}

/* The deepest chain of changes, as InnoDB has it. */
static constexpr uint CHANGES_MAX= 15;

extern "C" {
static void take_row(void *rows, uint64_t row)
{
  static_cast<std::vector<uint64_t> *>(rows)->push_back(row);
}
}

/* Does what a key asks for once the row that it leads to by `key` has changed. */
int ha_perdura::cascade(Link &link, const std::string &key, const Row_change &row_change, const Cascade &change)
{
  const PerduraReferenceKey sought= link.key(reinterpret_cast<const uchar *>(key.data()), key.length());
  if (!cascades(link, change.is_update))
  {
    const PerduraCode found= perdura_reference_exists(link.rows(), m_session, sought, 0);
    if (found == PERDURA_CODE_OK)
      return referred(link);
    return found == PERDURA_CODE_END ? 0 : failed(found);
  }
  std::vector<uint64_t> rows;
  const PerduraCode code= perdura_reference_rows(link.rows(), m_session, sought, take_row, &rows);
  if (code != PERDURA_CODE_OK)
    return failed(code);
  if (rows.empty())
    return 0;
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
  for (const uint64_t row : rows)
    if (int error= change_child(child, row, link, key, row_change, change))
      return error;
  return thd_killed(table->in_use) ? HA_ERR_ABORTED_BY_USER : 0;
}

/* Prepares the table, which the server has opened for cascades, for changes of its rows. The list of
   its foreign keys stays the same until the statement ends. */
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
