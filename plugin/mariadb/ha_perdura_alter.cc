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

/* ALTER TABLE without another table: what adds, drops or renames indexes, by the crates, while
   others read and nobody writes; and what changes the server's definition, but neither rows nor
   keys. All other alterations copy the table, also one that adds or changes a CHECK constraint: the
   copy checks the rows. */

#include "foreign_definitions.h"
#include "ha_perdura.h"
#include "table_definition.h"

using namespace perdura;

static constexpr alter_table_operations ADDED= ALTER_ADD_NON_UNIQUE_NON_PRIM_INDEX | ALTER_ADD_UNIQUE_INDEX | ALTER_ADD_PK_INDEX;
static constexpr alter_table_operations OF_INDEXES=
  ADDED | ALTER_ADD_INDEX | ALTER_DROP_INDEX | ALTER_DROP_NON_UNIQUE_NON_PRIM_INDEX | ALTER_DROP_UNIQUE_INDEX | ALTER_DROP_PK_INDEX |
  ALTER_RENAME_INDEX | ALTER_INDEX_ORDER | ALTER_INDEX_IGNORABILITY | ALTER_CHANGE_INDEX_COMMENT;

/* Changes of the definition alone: names, defaults and comments of columns, CHECK constraints that
   go, and the options below. */
static constexpr alter_table_operations OF_DEFINITION=
  ALTER_COLUMN_NAME | ALTER_CHANGE_COLUMN_DEFAULT | ALTER_COLUMN_OPTION | ALTER_DROP_CHECK_CONSTRAINT | ALTER_OPTIONS |
  ALTER_ADD_FOREIGN_KEY | ALTER_DROP_FOREIGN_KEY;
static constexpr ulong OPTIONS_OF_DEFINITION=
  HA_CREATE_USED_COMMENT | HA_CREATE_USED_DEFAULT_CHARSET | HA_CREATE_USED_MIN_ROWS | HA_CREATE_USED_MAX_ROWS | HA_CREATE_USED_AVG_ROW_LENGTH;

/* An alteration under way. The server destroys it. */
class Index_alteration final : public inplace_alter_handler_ctx
{
public:
  Index_alteration(TABLE *altered, PerduraCursor *cursor) : keys(altered), definition(altered, keys), m_cursor(cursor) {}
  ~Index_alteration() override { end(); }

  PerduraCode begin(const std::vector<int32_t> &kept)
  {
    return perdura_alter_begin(m_cursor, definition.get(), kept.data(), &m_alteration);
  }

  PerduraCode build(uchar *record, const PerduraBuildHooks &hooks, uint *refused)
  {
    return perdura_alter_build(m_cursor, m_alteration, record, hooks, refused);
  }

  PerduraCode commit(const std::vector<PerduraRenamedColumn> &renamed)
  {
    PerduraAlteration *alteration= m_alteration;
    m_alteration= nullptr;
    return perdura_alter_commit(pool, m_cursor, alteration, definition.get(), renamed.data(), renamed.size());
  }

  void set_foreign_keys(std::vector<Reference> list)
  {
    m_foreign_keys= std::make_unique<Reference_list>(std::move(list));
    m_foreign_keys->put_in(definition.get());
  }

  void end()
  {
    if (m_alteration)
      perdura_alter_end(m_cursor, m_alteration);
    m_alteration= nullptr;
  }

  Key_images keys;
  Table_definition definition;

private:
  PerduraCursor *m_cursor;
  PerduraAlteration *m_alteration= nullptr;
  std::unique_ptr<Reference_list> m_foreign_keys;
};

/* Whether two keys of tables with the same columns have the same entries. */
static bool is_same_key(const KEY &one, const KEY &other)
{
  if (one.user_defined_key_parts != other.user_defined_key_parts || one.algorithm != other.algorithm ||
      (one.flags & HA_NOSAME) != (other.flags & HA_NOSAME))
    return false;
  for (uint part= 0; part < one.user_defined_key_parts; part++)
  {
    const KEY_PART_INFO &left= one.key_part[part], &right= other.key_part[part];
    if (left.fieldnr != right.fieldnr || left.length != right.length ||
        (left.key_part_flag & HA_REVERSE_SORT) != (right.key_part_flag & HA_REVERSE_SORT))
      return false;
  }
  return true;
}

/* The name that an index of the altered table has now, if the statement renames it. What it drops
   and adds is made anew, though the server may take it for a rename: the index that is dropped may
   be a damaged one. */
static const char *name_before(const Alter_inplace_info *info, const KEY &key)
{
  for (const Alter_rename_key &renamed : info->alter_info->alter_rename_key_list)
    if (!my_strcasecmp(system_charset_info, renamed.new_name.str, key.name.str))
      return renamed.old_name.str;
  return key.name.str;
}

/* For each index of the altered table, the number of the one that it is now, or -1. */
static std::vector<int32_t> kept_indexes(const TABLE *table, const TABLE *altered, const Alter_inplace_info *info)
{
  std::vector<int32_t> kept(altered->s->keys, -1);
  for (uint index= 0; index < altered->s->keys; index++)
  {
    const KEY &then= altered->key_info[index];
    const char *name= name_before(info, then);
    for (uint old= 0; old < table->s->keys; old++)
      if (is_same_key(table->key_info[old], then) && !my_strcasecmp(system_charset_info, table->key_info[old].name.str, name))
        kept[index]= static_cast<int32_t>(old);
  }
  return kept;
}

/* Whether records of both tables are laid out alike. */
static bool has_same_columns(const TABLE *table, const TABLE *altered)
{
  if (table->s->fields != altered->s->fields || table->s->reclength != altered->s->reclength ||
      table->s->null_bytes != altered->s->null_bytes)
    return false;
  for (uint i= 0; i < table->s->fields; i++)
  {
    const Field *now= table->field[i], *then= altered->field[i];
    if (now->offset(table->record[0]) != then->offset(altered->record[0]) || now->null_bit != then->null_bit ||
        now->real_type() != then->real_type() || now->charset() != then->charset())
      return false;
  }
  return true;
}

static std::string text_of(const Virtual_column_info *check)
{
  String text;
  check->expr->print_for_table_def(&text);
  return {text.ptr(), text.length()};
}

/* The definition of a column in the statement, if it has one. */
static const Create_field *find_definition(const Alter_inplace_info *info, const Field *field)
{
  List_iterator_fast<Create_field> definitions(info->alter_info->create_list);
  while (const Create_field *definition= definitions++)
    if (!my_strcasecmp(system_charset_info, definition->field_name.str, field->field_name.str))
      return definition;
  return nullptr;
}

/* Whether the statement adds or changes a CHECK constraint of a column. The server has no flag for
   that, and only its copy checks the existing rows. A column that is not redefined keeps its
   constraint, even if a renamed column changes its text. */
static bool has_new_check(const TABLE *table, const TABLE *altered, const Alter_inplace_info *info)
{
  for (uint i= 0; i < table->s->fields; i++)
  {
    const Virtual_column_info *now= table->field[i]->check_constraint, *then= altered->field[i]->check_constraint;
    if (!then)
      continue;
    if (!now)
      return true;
    const Create_field *definition= find_definition(info, altered->field[i]);
    const bool is_kept= definition && definition->check_constraint == now;
    if (!is_kept && text_of(now) != text_of(then))
      return true;
  }
  return false;
}

/* Whether the statement asks for nothing but what is done in place. */
static bool is_in_place(const Alter_inplace_info *info)
{
  if (info->handler_flags & ~(OF_INDEXES | OF_DEFINITION) || info->ignore)
    return false;
  return !(info->handler_flags & ALTER_OPTIONS) || !(info->create_info->used_fields & ~OPTIONS_OF_DEFINITION);
}

enum_alter_inplace_result ha_perdura::check_if_supported_inplace_alter(TABLE *altered, Alter_inplace_info *info)
{
  if (altered->s->sequence)
    info->unsupported_reason= "SEQUENCE";
  if (altered->s->sequence || !is_in_place(info) || table->s->tmp_table != NO_TMP_TABLE || table->s->partition_info_str ||
      altered->s->partition_info_str || has_missing_features(altered) || !has_same_columns(table, altered) ||
      has_new_check(table, altered, info))
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  /* The copy checks the rows. */
  if (info->handler_flags & ALTER_ADD_FOREIGN_KEY && checks_foreign_keys(ha_thd()))
  {
    info->unsupported_reason= my_get_err_msg(ER_ALTER_OPERATION_NOT_SUPPORTED_REASON_FK_CHECK);
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }
  const std::vector<int32_t> kept= kept_indexes(table, altered, info);
  const bool adds= std::find(kept.begin(), kept.end(), -1) != kept.end();
  return adds ? HA_ALTER_INPLACE_NOCOPY_LOCK : HA_ALTER_INPLACE_INSTANT;
}

/* Whether an index that goes is needed by a foreign key, with the server's error. */
static bool needs_index(THD *thd, const TABLE *table, const TABLE *altered, std::vector<Link> &links, const Alter_info *info)
{
  for (Link &link : links)
  {
    const uint index= index_of(table->s, table->key_info, link.own_columns());
    bool is_dropped= index == NO_KEY;
    const char *name= link.reference.name.c_str();
    for (const Alter_drop &drop : info->drop_list)
      is_dropped|= drop.type == Alter_drop::FOREIGN_KEY && !my_strcasecmp(system_charset_info, dropped_name(drop), name);
    std::vector<std::string> columns;
    for (const std::string &column : link.own_columns())
      columns.push_back(altered->field[column_of(table->s, column)]->field_name.str);
    if (is_dropped || index_of(altered->s, altered->key_info, columns) != NO_KEY)
      continue;
    my_error(ER_DROP_INDEX_FK, MYF(0), table->key_info[index].name.str);
    return true;
  }
  return false;
}

/* Finds the foreign keys that the altered table has. True with an error if that fails. */
static bool find_foreign_keys(THD *thd, const TABLE *table, TABLE *altered, Alter_inplace_info *info, Index_alteration *alteration)
{
  Foreign_definitions keys(thd, altered, {table->s->db.str, table->s->table_name.str});
  int error= keys.find(info->alter_info, true);
  if (!error)
    error= keys.check();
  if (error)
  {
    if (error == HA_ERR_FOUND_DUPP_KEY)
      my_error(ER_DUP_CONSTRAINT_NAME, MYF(0), "FOREIGN KEY", keys.taken().c_str());
    else if (error != HA_ERR_UNSUPPORTED)
      my_error(ER_CANT_CREATE_TABLE, MYF(0), table->s->db.str, table->s->table_name.str, error);
    return true;
  }
  alteration->set_foreign_keys(keys.list(false));
  return false;
}

/* Nobody uses the table now. */
bool ha_perdura::prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info)
{
  refresh_references();
  if (m_foreign && checks_foreign_keys(ha_thd()) &&
      (needs_index(ha_thd(), table, altered, m_foreign->own, info->alter_info) ||
       needs_index(ha_thd(), table, altered, m_foreign->referring, info->alter_info)))
    return true;
  Index_alteration *alteration= new (ha_thd()->mem_root) Index_alteration(altered, m_cursor);
  info->handler_ctx= alteration;
  if (!alteration || find_foreign_keys(ha_thd(), table, altered, info, alteration))
    return true;
  PerduraCode code= alteration->begin(kept_indexes(table, altered, info));
  if (code != PERDURA_CODE_OK)
    print_error(table_error(code), MYF(0));
  return code != PERDURA_CODE_OK;
}

namespace {
/* Context of the hooks. */
struct Build
{
  ha_perdura *handler;
  TABLE *table;
  Key_images *keys;
  Virtual_columns *computed;
  Column_set columns;
  uint too_long;

  void compute() { computed->compute_new(handler, &columns); }
};
} // namespace

extern "C" {
static bool build_goes_on(void *context)
{
  return !thd_killed(static_cast<Build *>(context)->table->in_use);
}

static void build_row(void *context)
{
  Build *build= static_cast<Build *>(context);
  if (build->computed)
    build->compute();
}

static bool build_key(void *context, uint32_t index, PerduraKey *key)
{
  Build *build= static_cast<Build *>(context);
  if (build->keys->make(index, build->table->record[0], Key_images::Slot::FIRST, key))
    return true;
  build->too_long= index;
  return false;
}
}

bool ha_perdura::inplace_alter_table(TABLE *altered, Alter_inplace_info *info)
{
  Index_alteration *alteration= static_cast<Index_alteration *>(info->handler_ctx);
  constexpr uint NONE= UINT_MAX;
  Build build= {this, table, &alteration->keys, nullptr, Column_set(table), NONE};
  const std::vector<int32_t> kept= kept_indexes(table, altered, info);
  for (uint index= 0; index < altered->s->keys; index++)
    if (kept[index] < 0 && alteration->keys.has_virtual(index))
    {
      build.computed= m_virtual.get();
      build.computed->add_key(altered->key_info[index], build.columns.bits());
    }
  uint refused= 0;
  const PerduraBuildHooks hooks= {build_goes_on, build_row, build_key, &build};
  PerduraCode code= alteration->build(table->record[0], hooks, &refused);
  if (code == PERDURA_CODE_OK)
    return false;
  if (code == PERDURA_CODE_DUPLICATE_KEY)
  {
    if (build.computed)
      build.compute();
    memcpy(altered->record[0], table->record[0], table->s->reclength);
    print_keydup_error(altered, &altered->key_info[refused], MYF(0));
  }
  else if (build.too_long != NONE)
    my_printf_error(ER_TOO_LONG_KEY, "Perdura: a row's values for key '%s' take more than the %u bytes that a key can have", MYF(0),
                    altered->key_info[build.too_long].name.str, PERDURA_KEY_BYTES_MAX);
  else
    print_error(table_error(code), MYF(0));
  return true;
}

bool ha_perdura::commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit)
{
  Index_alteration *alteration= static_cast<Index_alteration *>(info->handler_ctx);
  if (!alteration)
    return false;
  if (!commit)
  {
    alteration->end();
    return false;
  }
  const uchar *image;
  size_t bytes;
  if (altered->s->read_frm_image(&image, &bytes))
  {
    alteration->end();
    my_error(ER_INTERNAL_ERROR, MYF(0), "Perdura: the server's definition of the altered table cannot be read");
    return true;
  }
  alteration->definition.get()->frm= image;
  alteration->definition.get()->frm_bytes= bytes;
  std::vector<PerduraRenamedColumn> renamed;
  for (uint i= 0; i < table->s->fields; i++)
    if (strcmp(table->field[i]->field_name.str, altered->field[i]->field_name.str))
      renamed.push_back({table->field[i]->field_name.str, altered->field[i]->field_name.str});
  PerduraCode code= alteration->commit(renamed);
  altered->s->free_frm_image(image);
  if (code != PERDURA_CODE_OK)
    print_error(table_error(code), MYF(0));
  return code != PERDURA_CODE_OK;
}
