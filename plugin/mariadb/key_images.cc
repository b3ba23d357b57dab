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

/* Makes keys from records and from the server's search keys. key_images.h describes them. */

#include "key_images.h"
#include "missing_features.h"

namespace perdura {

/* Bytes of the hash of a long key, and what its two halves begin with. */
constexpr size_t HASH_BYTES= 16;
constexpr ulonglong HASH_SEEDS[2][2]= {{0x9e3779b97f4a7c15ULL, 0xbf58476d1ce4e5b9ULL}, {0x94d049bb133111ebULL, 0xd6e8feb86659fd93ULL}};
/* sort_string() may write this much more than it was asked for. */
constexpr size_t SORT_SLACK= 8;

bool is_integer(const Field *field)
{
  switch (field->real_type()) {
  case MYSQL_TYPE_TINY:
  case MYSQL_TYPE_SHORT:
  case MYSQL_TYPE_INT24:
  case MYSQL_TYPE_LONG:
  case MYSQL_TYPE_LONGLONG:
  case MYSQL_TYPE_YEAR: return true;
  default: return false;
  }
}

static uint content_length(const uchar *bytes, uint length_bytes)
{
  switch (length_bytes) {
  case 1: return *bytes;
  case 2: return uint2korr(bytes);
  case 3: return uint3korr(bytes);
  default: return uint4korr(bytes);
  }
}

Key_images::Key_images(TABLE *table)
{
  const uint count= kept_keys(table->s);
  m_indexes.reserve(count);
  for (uint index= 0; index < count; index++)
    add_index(table, table->key_info[index]);
  place_keys();
}

Key_images::Key_images(TABLE *table, const std::vector<std::vector<uint>> &lists)
{
  m_indexes.reserve(lists.size());
  for (const std::vector<uint> &columns : lists)
  {
    std::vector<KEY_PART_INFO> parts(columns.size());
    for (size_t part= 0; part < columns.size(); part++)
    {
      Field *field= table->field[columns[part]];
      parts[part].field= field;
      parts[part].fieldnr= static_cast<field_index_t>(columns[part] + 1);
      parts[part].length= field->key_length();
      parts[part].store_length= parts[part].length;
      parts[part].key_part_flag= 0;
    }
    KEY key= KEY();
    key.user_defined_key_parts= static_cast<uint>(columns.size());
    key.algorithm= HA_KEY_ALG_UNDEF;
    key.key_part= parts.data();
    add_index(table, key);
    /* Another table's index may have room for NULL where this has none. */
    m_indexes.back().room+= columns.size();
  }
  place_keys();
}

/* Gives the keys their places. */
void Key_images::place_keys()
{
  size_t all= 0;
  for (Index &index : m_indexes)
  {
    index.place= all;
    all+= 2 * index.room;
  }
  m_keys.resize(all);
}

void Key_images::add_index(TABLE *table, const KEY &key)
{
  Index index= {{}, {}, false, false, 0, 0, 0};
  const bool is_hash= key.algorithm == HA_KEY_ALG_LONG_HASH;
  size_t room= 0;
  bool is_fixed= true;
  for (uint part= 0; part < key.user_defined_key_parts; part++)
  {
    const Key_part found= describe(table, key.key_part[part]);
    index.has_virtual|= !found.field->stored_in_db();
    is_fixed&= !found.null_bit && found.image != Key_part::Image::TEXT && found.image != Key_part::Image::BINARY_STRING;
    room+= image_bytes(found);
    if (found.back != Way_back::NONE && !is_hash)
      index.restorable|= static_cast<Parts>(1) << part;
    index.parts.push_back(found);
  }
  if (is_hash)
  {
    const auto hash= static_cast<const Item_func *>(key.key_part->field->vcol_info->expr);
    for (uint part= 0; part < hash->argument_count(); part++)
    {
      /* The columns lie before the hash, which is all that the server shows of the key. */
      index.hashed.push_back(locate(table, *(key.key_part - hash->argument_count() + part)));
      /* Of a column that counts in part the server hashes LEFT(column, characters). */
      Item *argument= hash->arguments()[part];
      Key_part &found= index.hashed.back();
      found.length= argument->type() != Item::FUNC_ITEM || found.field->real_type() == MYSQL_TYPE_GEOMETRY ? 0 :
        static_cast<uint>(static_cast<Item_func *>(argument)->arguments()[1]->val_int()) * found.field->charset()->mbmaxlen;
    }
    room+= HASH_BYTES;
  }
  index.room= std::min(room, static_cast<size_t>(PERDURA_KEY_BYTES_MAX)) + SORT_SLACK;
  /* The server compares the rows with the same hash that it sees, and the engine has the digest for
     those that it does not see. */
  const bool unique= (key.flags & HA_NOSAME) || is_hash;
  index.may_repeat= !unique;
  m_definitions.push_back({unique, static_cast<uint16_t>(is_fixed ? room : 0)});
  m_indexes.push_back(std::move(index));
}

/* Where a column's value lies in a record. */
Key_part Key_images::locate(TABLE *table, const KEY_PART_INFO &info)
{
  Key_part part= {};
  /* The column itself: the field of a part of a column says that the column is shorter. */
  Field *field= part.field= table->field[info.fieldnr - 1];
  part.back= way_back(field, info);
  part.is_reverse= info.key_part_flag & HA_REVERSE_SORT;
  part.offset= static_cast<uint>(field->offset(table->record[0]));
  part.length= info.length;
  part.store_length= info.store_length;
  if (field->null_ptr)
  {
    part.null_bit= field->null_bit;
    part.null_offset= static_cast<uint>(field->null_ptr - table->record[0]);
  }
  part.record_bytes= field->pack_length_in_rec();
  if (field->flags & BLOB_FLAG)
  {
    part.place= Key_part::Place::BLOB;
    part.length_bytes= static_cast<uchar>(static_cast<Field_blob *>(field)->pack_length_no_ptr());
  }
  else if (field->real_type() == MYSQL_TYPE_VARCHAR)
  {
    part.place= Key_part::Place::VARCHAR;
    part.length_bytes= static_cast<uchar>(static_cast<Field_varstring *>(field)->length_bytes);
    part.record_bytes-= part.length_bytes;
  }
  return part;
}

static bool is_string_field(const Key_part &part)
{
  return part.place != Key_part::Place::FIXED || part.field->real_type() == MYSQL_TYPE_STRING;
}

Key_part Key_images::describe(TABLE *table, const KEY_PART_INFO &info)
{
  Key_part part= locate(table, info);
  Field *field= part.field;
  const bool is_string= is_string_field(part);
  if (is_integer(field))
  {
    part.image= Key_part::Image::INTEGER;
    part.is_signed= !static_cast<Field_num *>(field)->unsigned_flag;
  }
  else if (is_string && field->sort_charset() != &my_charset_bin)
  {
    part.image= Key_part::Image::TEXT;
    part.collation= collation_key(field->sort_charset(), part.place == Key_part::Place::FIXED);
    m_weights.resize(std::max(m_weights.size(), part.collation->weight_bytes(part.length)));
  }
  else if (part.place != Key_part::Place::FIXED)
    part.image= Key_part::Image::BINARY_STRING;
  else if (is_string || field->real_type() == MYSQL_TYPE_BIT)
    part.image= Key_part::Image::BYTES;
  else
    part.image= Key_part::Image::SORTED;
  return part;
}

const Collation_key *Key_images::collation_key(CHARSET_INFO *collation, bool is_fixed)
{
  for (const std::unique_ptr<Collation_key> &known : m_collations)
    if (known->collation() == collation && known->is_fixed() == is_fixed)
      return known.get();
  m_collations.push_back(std::make_unique<Collation_key>(collation, is_fixed));
  return m_collations.back().get();
}

/* The most bytes that the image of a column takes. */
size_t Key_images::image_bytes(const Key_part &part) const
{
  const size_t null= part.null_bit ? 1 : 0;
  switch (part.image) {
  case Key_part::Image::TEXT: return null + part.collation->key_bytes(part.length);
  case Key_part::Image::BINARY_STRING: return null + 2 * static_cast<size_t>(part.length) + 2;
  default: return null + std::min(part.length, part.record_bytes);
  }
}

uchar *Key_images::slot(uint index, Slot which)
{
  const Index &found= m_indexes[index];
  return m_keys.data() + found.place + (which == Slot::FIRST ? 0 : found.room);
}

Key_images::Value Key_images::value(const Key_part &part, const uchar *record)
{
  const uchar *place= record + part.offset;
  if (part.place == Key_part::Place::FIXED)
    return {place, part.record_bytes};
  const uint length= content_length(place, part.length_bytes);
  place+= part.length_bytes;
  if (part.place == Key_part::Place::BLOB)
    memcpy(&place, place, sizeof(place));
  return {place ? place : reinterpret_cast<const uchar *>(""), length};
}

void Key_images::put(Key_writer *writer, const Key_part &part, Value value)
{
  switch (part.image) {
  case Key_part::Image::INTEGER:
  {
    uchar image[sizeof(longlong)];
    const uchar *byte= value.bytes + part.record_bytes;
    image[0]= static_cast<uchar>(*--byte ^ (part.is_signed ? 128 : 0));
    for (uchar *at= image + 1; byte > value.bytes; at++)
      *at= *--byte;
    writer->put(image, part.record_bytes);
    return;
  }
  case Key_part::Image::SORTED:
  {
    uchar image[MAX_FIELD_CHARLENGTH + SORT_SLACK];
    uchar *place= part.field->ptr;
    part.field->ptr= const_cast<uchar *>(value.bytes);
    part.field->sort_string(image, part.record_bytes);
    part.field->ptr= place;
    writer->put(image, part.record_bytes);
    return;
  }
  case Key_part::Image::BYTES: writer->put(value.bytes, std::min<size_t>(part.length, part.record_bytes)); return;
  case Key_part::Image::BINARY_STRING:
    put_escaped(writer, value.bytes, std::min<size_t>(part.length, value.length));
    return;
  case Key_part::Image::TEXT:
  {
    CHARSET_INFO *collation= part.collation->collation();
    /* The column's length is one in characters; what a fixed column has behind them is filling. */
    const uint bytes= part.place == Key_part::Place::FIXED ? std::min(part.length, part.record_bytes) : part.length;
    const size_t chars= bytes / collation->mbmaxlen;
    if (value.length > chars)
      value.length= std::min(value.length, collation->charpos(value.bytes, value.bytes + value.length, chars));
    part.collation->put(writer, value.bytes, value.length, m_weights.data(), m_weights.size());
  }
  }
}

/* Spreads the bits of a number over all of it. */
static ulonglong mixed(ulonglong number)
{
  number= (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9ULL;
  number= (number ^ (number >> 27)) * 0x94d049bb133111ebULL;
  return number ^ (number >> 31);
}

/* Hashes the columns of a long key, none of which is NULL, each by its collation. */
void Key_images::put_hash(Key_writer *writer, const Index &index, const uchar *record)
{
  uchar image[HASH_BYTES];
  for (size_t half= 0; half < 2; half++)
  {
    ulonglong sum= 0;
    for (const Key_part &part : index.hashed)
    {
      Value found= value(part, record);
      CHARSET_INFO *collation= is_string_field(part) ? part.field->sort_charset() : &my_charset_bin;
      const size_t chars= part.length / part.field->charset()->mbmaxlen;
      if (chars && found.length > chars)
        found.length= std::min(found.length, collation->charpos(found.bytes, found.bytes + found.length, chars));
      ulong first= static_cast<ulong>(HASH_SEEDS[half][0]), second= static_cast<ulong>(HASH_SEEDS[half][1]);
      collation->hash_sort(found.bytes, found.length, &first, &second);
      sum= mixed(sum + HASH_SEEDS[half][1] + first);
    }
    int8store(image + half * sizeof(sum), sum);
  }
  writer->put(image, HASH_BYTES);
}

Key_images::Made Key_images::make_in_form(uint index, const uchar *record, const std::vector<Form> &form, PerduraKey *key)
{
  const Index &found= m_indexes[index];
  uchar *start= slot(index, Slot::FIRST);
  Key_writer writer(start, found.room - SORT_SLACK);
  for (size_t number= 0; number < form.size(); number++)
  {
    const Key_part &part= found.parts[number];
    if (part.null_bit && record[part.null_offset] & part.null_bit)
      return Made::NULL_COLUMN;
    uchar *from= writer.at();
    if (form[number].has_null)
      writer.put(IS_VALUE);
    put(&writer, part, value(part, record));
    if (form[number].is_reverse)
      writer.invert(from);
  }
  *key= {start, static_cast<uint32_t>(writer.length()), false};
  return writer.is_cut() ? Made::TOO_LONG : Made::KEY;
}

bool Key_images::make(uint index, const uchar *record, Slot which, PerduraKey *key)
{
  const Index &found= m_indexes[index];
  uchar *start= slot(index, which);
  Key_writer writer(start, found.room - SORT_SLACK);
  bool may_repeat= found.may_repeat;
  for (const Key_part &part : found.parts)
  {
    uchar *from= writer.at();
    const bool is_null= part.null_bit && record[part.null_offset] & part.null_bit;
    may_repeat|= is_null;
    if (part.null_bit)
      writer.put(is_null ? IS_NULL : IS_VALUE);
    if (!is_null)
      put(&writer, part, value(part, record));
    if (part.is_reverse)
      writer.invert(from);
    if (!is_null && !found.hashed.empty())
      put_hash(&writer, found, record);
  }
  *key= {start, static_cast<uint32_t>(writer.length()), may_repeat};
  return !writer.is_cut();
}

/* A search key longer than any key is cut: it lies between the same keys as the whole. */
PerduraKey Key_images::search(uint index, const uchar *tuple, key_part_map parts, Slot which, bool *whole)
{
  const Index &found= m_indexes[index];
  uchar *start= slot(index, which);
  Key_writer writer(start, found.room - SORT_SLACK);
  bool may_repeat= found.may_repeat;
  size_t used= 0;
  for (const Key_part &part : found.parts)
  {
    if (!(parts & 1))
      break;
    parts>>= 1;
    used++;
    uchar *from= writer.at();
    const uchar *place= tuple;
    tuple+= part.store_length;
    const bool is_null= part.null_bit && *place;
    may_repeat|= is_null;
    if (part.null_bit)
    {
      writer.put(is_null ? IS_NULL : IS_VALUE);
      place++;
    }
    if (!is_null)
    {
      if (part.place == Key_part::Place::FIXED)
        put(&writer, part, {place, part.length});
      else
        put(&writer, part, {place + HA_KEY_BLOB_LENGTH, uint2korr(place)});
    }
    if (part.is_reverse)
      writer.invert(from);
  }
  *whole= used == found.parts.size() && found.hashed.empty() && !may_repeat && !writer.is_cut();
  return {start, static_cast<uint32_t>(writer.length()), may_repeat};
}

bool Key_images::is_same_value(const Key_part &part, const uchar *before, const uchar *after)
{
  if (part.null_bit)
  {
    const bool is_null= before[part.null_offset] & part.null_bit;
    if (is_null != static_cast<bool>(after[part.null_offset] & part.null_bit))
      return false;
    if (is_null)
      return true;
  }
  const Value was= value(part, before), is= value(part, after);
  return was.length == is.length && !memcmp(was.bytes, is.bytes, was.length);
}

bool Key_images::is_same(uint index, const uchar *before, const uchar *after) const
{
  const Index &found= m_indexes[index];
  const auto is_same_part= [before, after](const Key_part &part) { return is_same_value(part, before, after); };
  return std::all_of(found.parts.begin(), found.parts.end(), is_same_part) &&
         std::all_of(found.hashed.begin(), found.hashed.end(), is_same_part);
}

} // namespace perdura
