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

/* The foreign keys of an open table: what the server asks about them, and the checks of rows that
   refer to others. ha_perdura_foreign.cc has the rows that others refer to. */

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
  std::string text;
  for (const Reference &reference : references_of(m_path.c_str(), PERDURA_KEYS_OF_CHILD))
    text+= ",\n  " + reference.clause(ha_thd());
  return text.empty() ? nullptr : my_strdup(PSI_NOT_INSTRUMENTED, text.c_str(), MYF(MY_WME));
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

static FOREIGN_KEY_INFO *server_key(THD *thd, const Reference &reference)
{
  void *place= thd->alloc(sizeof(FOREIGN_KEY_INFO));
  if (!place)
    return nullptr;
  FOREIGN_KEY_INFO *info= new (place) FOREIGN_KEY_INFO();
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

static int give_list(THD *thd, const std::vector<Reference> &references, List<FOREIGN_KEY_INFO> *list)
{
  for (const Reference &reference : references)
  {
    FOREIGN_KEY_INFO *info= server_key(thd, reference);
    if (!info || list->push_back(info, thd->mem_root))
      return HA_ERR_OUT_OF_MEM;
  }
  return 0;
}

int ha_perdura::get_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list)
{
  return give_list(thd, references_of(m_path.c_str(), PERDURA_KEYS_OF_CHILD), list);
}

int ha_perdura::get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list)
{
  return give_list(thd, references_of(m_path.c_str(), PERDURA_KEYS_OF_PARENT), list);
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

/* Whether an update writes the entry anew by which a row refers to another. InnoDB, whose entries
   have the primary key, looks for the other row then, whichever of the columns has changed. */
bool ha_perdura::refers_anew(const Link &link, const uchar *before, const uchar *after) const
{
  const uint primary= table->s->primary_key;
  if (link.own_index() == NO_KEY)
    return !m_foreign->is_same(link, before, after);
  return !m_keys->is_same(link.own_index(), before, after) || (primary != MAX_KEY && !m_keys->is_same(primary, before, after));
}

/* Checks that the rows exist that a new row, or an updated one, refers to, and locks them. A change
   that a foreign key makes need not be checked by that key. */
int ha_perdura::check_parents(const uchar *before, const uchar *after, const Cascade *cascade)
{
  if (!checks_foreign_keys(table->in_use))
    return 0;
  for (size_t i= 0; m_foreign && i < m_foreign->own.size(); i++)
  {
    if (m_foreign->own[i].reference.is_carried || (before && !refers_anew(m_foreign->own[i], before, after)))
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
    /* A row refers to itself as before: if its key changes, the other side refuses that. */
    if (before && has_other && m_foreign->is_same(link, before, after) && m_foreign->refers_to_itself(link, before))
      continue;
    /* The row itself, if it is about to lose the key, or to get it anew by the entry that is
       checked. */
    uint64_t except= 0;
    if (before && has_other && link.is_to_itself() &&
        (link.index() == link.own_index() || !m_foreign->is_same_parent(link, before, after)))
      except= perdura_position(m_cursor);
    PerduraCode code= PERDURA_CODE_END;
    if (has_other && made == Key_images::Made::KEY)
      code= perdura_reference_lock(link.rows(), m_session, link.key(key.bytes, key.length), except);
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
  if (error == HA_ERR_FOUND_DUPP_KEY && m_refused_index < m_broken_index)
    return error;
  if (error && error != HA_ERR_FOUND_DUPP_KEY)
    return error;
  if ((code= perdura_rollback_to_savepoint(m_session, savepoint)) != PERDURA_CODE_OK)
    return failed(code);
  return HA_ERR_NO_REFERENCED_ROW;
}
