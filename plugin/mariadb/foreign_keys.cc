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

/* Foreign keys between the pool and the server: names, texts, definitions of tables. */

#include "foreign_keys.h"
#include "collation_key.h"

namespace perdura {

/* -- names and texts */

bool is_of_server(const std::string &table)
{
  return !table.compare(0, strlen("#sql"), "#sql");
}

static std::string decoded(const std::string &name)
{
  if (is_of_server(name))
    return name;
  constexpr size_t MARK_BYTES= 16; /* what the server puts before names that it cannot decode */
  char users[NAME_LEN + MARK_BYTES];
  const uint length= filename_to_tablename(name.c_str(), users, sizeof(users), true);
  return {users, length};
}

Table_name Table_name::of_path(const char *path)
{
  const std::string whole= path;
  const size_t slash= whole.find_last_of("/\\");
  const size_t before= slash == std::string::npos ? 0 : whole.find_last_of("/\\", slash - 1);
  const size_t begin= before == std::string::npos ? 0 : before + 1;
  return {decoded(whole.substr(begin, slash - begin)), decoded(whole.substr(slash + 1))};
}

std::string Table_name::path() const
{
  char path[FN_REFLEN + 1];
  build_table_filename(path, sizeof(path) - 1, database.c_str(), table.c_str(), "", 0);
  return path;
}

static constexpr const char *NUMBERED= "_ibfk_";

uint Reference::number_in_name() const
{
  const std::string prefix= child.table + NUMBERED;
  if (name.compare(0, prefix.length(), prefix) || name.length() == prefix.length() || name[prefix.length()] == '0')
    return 0;
  const char *digits= name.c_str() + prefix.length();
  constexpr size_t DIGITS_MAX= 9;
  if (strlen(digits) > DIGITS_MAX || strspn(digits, "0123456789") != strlen(digits))
    return 0;
  return static_cast<uint>(strtoul(digits, nullptr, 10));
}

void Reference::set_number(uint with)
{
  number= with;
  name= child.table + NUMBERED + std::to_string(with);
}

static void append(THD *thd, String *text, const std::string &name)
{
  append_identifier(thd, text, name.c_str(), name.length());
}

static void append_list(THD *thd, String *text, const std::vector<std::string> &names)
{
  text->append('(');
  for (size_t i= 0; i < names.size(); i++)
  {
    if (i > 0)
      text->append(STRING_WITH_LEN(", "));
    append(thd, text, names[i]);
  }
  text->append(')');
}

static void append_action(String *text, const char *when, enum_fk_option action)
{
  if (action == FK_OPTION_UNDEF || action == FK_OPTION_RESTRICT)
    return;
  const LEX_CSTRING *name= fk_option_name(action);
  text->append(when, strlen(when));
  text->append(name->str, name->length);
}

static void append_clause(THD *thd, String *text, const Reference &reference)
{
  text->append(STRING_WITH_LEN("CONSTRAINT "));
  append(thd, text, reference.name);
  text->append(STRING_WITH_LEN(" FOREIGN KEY "));
  append_list(thd, text, reference.columns);
  text->append(STRING_WITH_LEN(" REFERENCES "));
  if (reference.parent.database != reference.child.database)
  {
    append(thd, text, reference.parent.database);
    text->append('.');
  }
  append(thd, text, reference.parent.table);
  text->append(' ');
  append_list(thd, text, reference.parent_columns);
  append_action(text, " ON DELETE ", reference.on_delete);
  append_action(text, " ON UPDATE ", reference.on_update);
}

std::string Reference::clause(THD *thd) const
{
  String text;
  append_clause(thd, &text, *this);
  return {text.ptr(), text.length()};
}

std::string Reference::description(THD *thd) const
{
  String text;
  append(thd, &text, child.database);
  text.append('.');
  append(thd, &text, child.table);
  text.append(STRING_WITH_LEN(", "));
  append_clause(thd, &text, *this);
  return {text.ptr(), text.length()};
}

/* -- lists */

extern "C" {
static void take_reference(void *context, const PerduraForeignKey *key)
{
  Reference found;
  found.child= Table_name::of_path(key->child);
  found.parent= Table_name::of_path(key->parent);
  found.name= key->name;
  if (key->number)
    found.set_number(key->number);
  for (size_t i= 0; i < key->column_count; i++)
  {
    found.columns.push_back(key->columns[i]);
    found.parent_columns.push_back(key->parent_columns[i]);
  }
  found.on_delete= static_cast<enum_fk_option>(key->on_delete);
  found.on_update= static_cast<enum_fk_option>(key->on_update);
  found.is_carried= key->is_carried;
  static_cast<std::vector<Reference> *>(context)->push_back(std::move(found));
}
}

std::vector<Reference> references_of(const char *path, PerduraKeysOf of)
{
  std::vector<Reference> found;
  perdura_foreign_keys(pool, path, of, take_reference, &found);
  std::sort(found.begin(), found.end(), [](const Reference &one, const Reference &other) {
    return one.child.database != other.child.database ? one.child.database < other.child.database : one.name < other.name;
  });
  return found;
}

Reference_list::Reference_list(std::vector<Reference> references) : m_references(std::move(references))
{
  const size_t count= m_references.size();
  m_paths.reserve(count);
  m_columns.reserve(2 * count);
  const auto texts= [](const std::vector<std::string> &names) {
    std::vector<const char *> pointers;
    for (const std::string &name : names)
      pointers.push_back(name.c_str());
    return pointers;
  };
  for (const Reference &reference : m_references)
  {
    m_paths.push_back(reference.parent.path());
    m_columns.push_back(texts(reference.columns));
    m_columns.push_back(texts(reference.parent_columns));
    PerduraForeignKey key= {};
    key.name= reference.number ? "" : reference.name.c_str();
    key.number= reference.number;
    key.parent= m_paths.back().c_str();
    key.columns= m_columns[m_columns.size() - 2].data();
    key.parent_columns= m_columns.back().data();
    key.column_count= reference.columns.size();
    key.on_delete= static_cast<uint8_t>(reference.on_delete);
    key.on_update= static_cast<uint8_t>(reference.on_update);
    key.is_carried= reference.is_carried;
    m_keys.push_back(key);
  }
}

/* -- other tables */

static bool lock(THD *thd, MDL_request *request)
{
  return !thd->mdl_context.acquire_lock(request, static_cast<double>(thd->variables.lock_wait_timeout));
}

bool lock_name(THD *thd, const Table_name &name, enum_mdl_type type)
{
  MDL_request request;
  MDL_REQUEST_INIT(&request, MDL_key::TABLE, name.database.c_str(), name.table.c_str(), type, MDL_TRANSACTION);
  return lock(thd, &request);
}

/* Among the locks of GET_LOCK(), whose second name is empty. */
bool lock_constraint(THD *thd, const std::string &database, const std::string &name)
{
  MDL_request request;
  MDL_REQUEST_INIT(&request, MDL_key::USER_LOCK, database.c_str(), name.c_str(), MDL_SHARED_NO_WRITE, MDL_TRANSACTION);
  return lock(thd, &request);
}

Table_share::Table_share(THD *thd, const Table_name &name) : m_path(name.path())
{
  PerduraFrm *frm;
  if (perdura_frm_fetch(pool, m_path.c_str(), &frm) != PERDURA_CODE_OK)
    return;
  m_key= name.database + '\0' + name.table + '\0';
  begin_table_share(thd, &m_share, m_key.data(), static_cast<uint>(m_key.length()), m_key.data() + name.database.length() + 1,
                    m_path.c_str());
  m_is_open= true;
  size_t bytes;
  const uint8_t *image= perdura_frm_data(frm, &bytes);
  if (m_share.init_from_binary_frm_image(thd, false, image, bytes))
  {
    free_table_share(&m_share);
    m_is_open= false;
  }
  perdura_frm_release(frm);
}

Table_share::~Table_share()
{
  if (m_is_open)
    free_table_share(&m_share);
}

uint column_of(const TABLE_SHARE *share, const std::string &name)
{
  for (uint i= 0; i < share->fields; i++)
    if (!my_strcasecmp(system_charset_info, share->field[i]->field_name.str, name.c_str()))
      return i;
  return UINT_MAX;
}

static bool begins_with(const TABLE_SHARE *share, const KEY &key, const std::vector<std::string> &columns)
{
  if (key.user_defined_key_parts < columns.size() || key.algorithm == HA_KEY_ALG_LONG_HASH ||
      is_fulltext(key) || is_spatial(key))
    return false;
  for (size_t part= 0; part < columns.size(); part++)
  {
    const KEY_PART_INFO &info= key.key_part[part];
    const Field *field= share->field[info.fieldnr - 1];
    if (info.length != field->key_length() || info.key_part_flag & HA_PART_KEY_SEG ||
        my_strcasecmp(system_charset_info, field->field_name.str, columns[part].c_str()))
      return false;
  }
  return true;
}

uint index_of(const TABLE_SHARE *share, const KEY *keys, const std::vector<std::string> &columns)
{
  for (uint index= 0; index < share->keys; index++)
    if (begins_with(share, keys[index], columns))
      return index;
  return NO_KEY;
}

static bool is_text(const Field *field)
{
  return field->real_type() == MYSQL_TYPE_STRING || field->real_type() == MYSQL_TYPE_VARCHAR || field->flags & BLOB_FLAG;
}

bool is_comparable(const Field *one, const Field *other)
{
  if (is_text(one) != is_text(other))
    return false;
  if (!is_text(one))
  {
    const auto is_unsigned= [](const Field *field) { return (field->flags & UNSIGNED_FLAG) != 0; };
    return one->real_type() == other->real_type() && one->type_handler() == other->type_handler() &&
           one->pack_length() == other->pack_length() && one->decimals() == other->decimals() &&
           is_unsigned(one) == is_unsigned(other);
  }
  CHARSET_INFO *collation= one->charset();
  const bool is_fixed= one->real_type() == MYSQL_TYPE_STRING, is_other_fixed= other->real_type() == MYSQL_TYPE_STRING;
  if (collation != other->charset())
    return false;
  if (is_fixed == is_other_fixed)
    return collation != &my_charset_bin || !is_fixed || one->pack_length() == other->pack_length();
  return collation != &my_charset_bin && Collation_key(collation, true).pads();
}

} // namespace perdura
