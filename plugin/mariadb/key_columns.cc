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

/* Takes the columns of a row out of its key, for reads that need no others. A key comes from a file
   of the pool, so its lengths are checked against those of the columns, and the month of a DATE
   against 12.

   Weights of collations do not tell the text, except those that are its bytes; and not even those
   tell the trailing spaces that a collation pads. A column of a fixed length is filled with spaces,
   so there it is known how many there are. */

#include "key_images.h"

namespace perdura {

static Way_back number_back(enum_field_types type)
{
  switch (type) {
  case MYSQL_TYPE_TINY:
  case MYSQL_TYPE_SHORT:
  case MYSQL_TYPE_INT24:
  case MYSQL_TYPE_LONG:
  case MYSQL_TYPE_LONGLONG:
  case MYSQL_TYPE_YEAR:
  case MYSQL_TYPE_ENUM:
  case MYSQL_TYPE_SET: return Way_back::REVERSED;
  case MYSQL_TYPE_NEWDATE: return Way_back::DATE;
  case MYSQL_TYPE_NEWDECIMAL:
  case MYSQL_TYPE_TIMESTAMP2:
  case MYSQL_TYPE_DATETIME2:
  case MYSQL_TYPE_TIME2: return Way_back::SAME;
  case MYSQL_TYPE_FLOAT: return Way_back::FLOAT;
  case MYSQL_TYPE_DOUBLE: return Way_back::DOUBLE;
  default: return Way_back::NONE;
  }
}

/* Types that the server's plugins add have images of their own. */
Way_back way_back(const Field *field, const KEY_PART_INFO &info)
{
  if (info.length != field->key_length() || field->flags & BLOB_FLAG)
    return Way_back::NONE;
  const enum_field_types type= field->real_type();
  if (type == MYSQL_TYPE_BIT)
    return static_cast<const Field_bit *>(field)->bit_len ? Way_back::NONE : Way_back::SAME;
  const bool is_fixed= field->type_handler() == &type_handler_string;
  if (!is_fixed && field->type_handler() != &type_handler_varchar)
    return type == MYSQL_TYPE_STRING || type == MYSQL_TYPE_VARCHAR ? Way_back::NONE : number_back(type);
  CHARSET_INFO *collation= field->charset();
  if (collation == &my_charset_bin)
    return is_fixed ? Way_back::SAME : Way_back::ESCAPED;
  const Collation_key texts(collation, is_fixed);
  if (!texts.keeps_bytes() || (texts.pads() && !is_fixed))
    return Way_back::NONE;
  return texts.pads() ? Way_back::PADDED : Way_back::ESCAPED;
}

namespace {

/* The bytes of a key, turned around where the column descends. Beyond the end there is nothing, and
   that is noted. */
class Key_reader
{
public:
  Key_reader(const uchar *key, size_t length) : m_at(key), m_end(key + length) {}

  void turn(bool is_reverse) { m_turned= is_reverse ? 255 : 0; }

  uchar byte()
  {
    if (likely(m_at < m_end))
      return static_cast<uchar>(*m_at++ ^ m_turned);
    m_is_cut= true;
    return 0;
  }

  bool bytes(uchar *target, size_t count)
  {
    if (unlikely(count > static_cast<size_t>(m_end - m_at)))
      return false;
    for (size_t i= 0; i < count; i++)
      target[i]= static_cast<uchar>(m_at[i] ^ m_turned);
    m_at+= count;
    return true;
  }

  bool is_cut() const { return m_is_cut; }
  size_t left() const { return static_cast<size_t>(m_end - m_at); }
  void leave(size_t left) { m_at= m_end - left; }

private:
  const uchar *m_at, *m_end;
  uchar m_turned= 0;
  bool m_is_cut= false;
};

} // namespace

/* Reads a text up to its end, which is a mark behind a byte that other marks follow too. SIZE_MAX
   if it is longer than its room. */
static size_t text_of(Key_reader *key, uchar marked, uchar end, uchar *target, size_t room)
{
  for (size_t length= 0;;)
  {
    const uchar byte= key->byte();
    if (byte == marked)
    {
      const uchar mark= key->byte();
      if (key->is_cut())
        return SIZE_MAX;
      if (mark == end)
        return length;
    }
    if (length == room)
      return SIZE_MAX;
    target[length++]= byte;
  }
}

/* Undoes what Field::sort_string() does to a number with a sign, an exponent and a fraction. */
static void turn_back(uchar *image, size_t bytes, uint exponent_unit)
{
  if (!(image[0] & 128))
  {
    for (size_t i= 0; i < bytes; i++)
      image[i]= static_cast<uchar>(~image[i]);
    return;
  }
  const uint head= ((static_cast<uint>(image[0]) << 8 | image[1]) - exponent_unit) & 0x7fff;
  image[0]= static_cast<uchar>(head >> 8);
  image[1]= static_cast<uchar>(head);
}

/* Zero has the same image as its negative, which the server prints otherwise. */
static bool is_zero(const uchar *image, size_t bytes)
{
  for (size_t i= 1; i < bytes; i++)
    if (image[i])
      return false;
  return image[0] == 128;
}

/* Whether a date, highest byte first, has a valid month (0 to 12): the server indexes an array of
   month names by it. All images of the other types are valid. */
static bool has_valid_month(const uchar *image)
{
  constexpr uint MONTHS= 12, MONTH_MASK= 15, DAY_WIDTH= 5;
  const uint low= static_cast<uint>(image[1]) << 8 | image[2];
  return (low >> DAY_WIDTH & MONTH_MASK) <= MONTHS;
}

using Told= Key_images::Told;

static Told restore_fixed(const Key_part &part, Key_reader *key, uchar *target)
{
  uchar image[sizeof(longlong)];
  const size_t bytes= part.record_bytes;
  if (part.back == Way_back::SAME)
    return key->bytes(target, bytes) ? Told::ALL : Told::DAMAGED;
  if (!key->bytes(image, bytes))
    return Told::DAMAGED;
  if (part.back == Way_back::DATE)
  {
    if (unlikely(!has_valid_month(image)))
      return Told::DAMAGED;
  }
  else if (part.back != Way_back::REVERSED)
  {
    /* The exponent lies behind the sign, and ends at this bit of the first two bytes. */
    constexpr uint FLOAT_UNIT= 1 << 7, DOUBLE_UNIT= 1 << 4;
    if (is_zero(image, bytes))
      return Told::NOT_ALL;
    turn_back(image, bytes, part.back == Way_back::FLOAT ? FLOAT_UNIT : DOUBLE_UNIT);
  }
  else if (part.is_signed)
    image[0]^= 128;
  std::reverse_copy(image, image + bytes, target);
  return Told::ALL;
}

static Told restore_text(const Key_part &part, Key_reader *key, uchar *target)
{
  const bool is_padded= part.back == Way_back::PADDED;
  uchar *text= target + part.length_bytes;
  const size_t length= is_padded ? text_of(key, ' ', SPACE_END, text, part.record_bytes)
                                 : text_of(key, 0, ZERO_LAST, text, part.record_bytes);
  if (length == SIZE_MAX)
    return Told::DAMAGED;
  if (part.place == Key_part::Place::FIXED)
    memset(text + length, ' ', part.record_bytes - length);
  else if (part.length_bytes == 1)
    *target= static_cast<uchar>(length);
  else
    int2store(target, length);
  return Told::ALL;
}

size_t Key_images::part_end(uint index, uint number, const uchar *key, size_t length, size_t at) const
{
  const Key_part &part= m_indexes[index].parts[number];
  const uchar turned= part.is_reverse ? 255 : 0;
  if (part.null_bit && at < length && (key[at++] ^ turned) == IS_NULL)
    return at;
  switch (part.image) {
  case Key_part::Image::TEXT: at= part.collation->end(key, length, at, turned); break;
  case Key_part::Image::BINARY_STRING: at= escaped_end(key, length, at, turned); break;
  default: at+= std::min(part.length, part.record_bytes);
  }
  return std::min(at, length);
}

Key_images::Told Key_images::restore(uint index, Parts parts, const uchar *bytes, size_t length, uchar *record) const
{
  Key_reader key(bytes, length);
  for (uint number= 0; parts; number++, parts>>= 1)
  {
    const Key_part &part= m_indexes[index].parts[number];
    if (!(parts & 1))
    {
      key.leave(length - part_end(index, number, bytes, length, length - key.left()));
      continue;
    }
    key.turn(part.is_reverse);
    if (part.null_bit)
    {
      const uchar null= key.byte();
      if (unlikely(key.is_cut() || null > 1))
        return Told::DAMAGED;
      if (null == 0)
      {
        record[part.null_offset]|= part.null_bit;
        continue;
      }
      record[part.null_offset]= static_cast<uchar>(record[part.null_offset] & ~part.null_bit);
    }
    uchar *target= record + part.offset;
    const bool is_text= part.back == Way_back::ESCAPED || part.back == Way_back::PADDED;
    const Told told= is_text ? restore_text(part, &key, target) : restore_fixed(part, &key, target);
    if (unlikely(told != Told::ALL))
      return told;
  }
  return Told::ALL;
}

Key_images::Parts Key_images::parts_of(uint index, const MY_BITMAP *columns) const
{
  Parts found= 0, bit= 1;
  for (const Key_part &part : m_indexes[index].parts)
  {
    if (bitmap_is_set(columns, part.field->field_index))
      found|= bit;
    bit<<= 1;
  }
  return found;
}

} // namespace perdura
