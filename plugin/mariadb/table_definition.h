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

/* A table's definition, as the crates are told of it. */

#ifndef PERDURA_TABLE_DEFINITION_H
#define PERDURA_TABLE_DEFINITION_H

#include "key_images.h"

#include <vector>

namespace perdura {

/* A table's definition for the crates: where its columns lie in a record. Its fields must be bound
   to record[0]. */
class Table_definition
{
public:
  Table_definition(TABLE *table, const Key_images &keys)
  {
    m_fields.reserve(table->s->fields);
    for (uint i= 0; i < table->s->fields; i++)
      m_fields.push_back(describe(table->field[i], table->record[0]));
    if (!table->s->partition_info_str)
    {
      m_definition.version= table->s->tabledef_version.str;
      m_definition.version_bytes= table->s->tabledef_version.length;
    }
    m_definition.fields= m_fields.data();
    m_definition.field_count= m_fields.size();
    m_definition.record_bytes= table->s->reclength;
    m_definition.null_bytes= table->s->null_bytes;
    m_definition.indexes= keys.definitions();
    m_definition.index_count= keys.count();
  }

  PerduraDefinition *get() { return &m_definition; }

private:
  static PerduraField describe(Field *field, const uchar *record)
  {
    PerduraField found= {};
    found.offset= field->offset(record);
    if (field->null_ptr)
    {
      found.null_mask= field->null_bit;
      found.null_offset= static_cast<uint32_t>(field->null_ptr - record);
    }
    if (!field->stored_in_db())
      found.kind= PERDURA_FIELD_VIRTUAL;
    else if (field->flags & BLOB_FLAG)
    {
      found.kind= PERDURA_FIELD_BLOB;
      found.length_bytes= static_cast<uint8_t>(static_cast<Field_blob *>(field)->pack_length_no_ptr());
    }
    else if (field->real_type() == MYSQL_TYPE_VARCHAR)
    {
      found.kind= PERDURA_FIELD_VARCHAR;
      found.length_bytes= static_cast<uint8_t>(static_cast<Field_varstring *>(field)->length_bytes);
      found.length= field->pack_length_in_rec() - found.length_bytes;
    }
    else
    {
      found.kind= is_padded(field) ? PERDURA_FIELD_PADDED : PERDURA_FIELD_FIXED;
      found.length= field->pack_length_in_rec();
    }
    return found;
  }

  /* Whether a column is a CHAR that mostly ends in padding: its record has room for the longest
     characters of the character set, and one-byte spaces fill the rest. CHAR(1) would save two
     bytes at most. In single-byte character sets the text mostly fills the column (codes, hashes),
     and fixed columns are copied faster. */
  static bool is_padded(const Field *field)
  {
    const CHARSET_INFO *collation= field->charset();
    return field->real_type() == MYSQL_TYPE_STRING && collation->mbminlen == 1 && collation->mbmaxlen > 1 &&
           field->pack_length_in_rec() > collation->mbmaxlen;
  }

  std::vector<PerduraField> m_fields;
  PerduraDefinition m_definition= {};
};

} // namespace perdura

#endif
