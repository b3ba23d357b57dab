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

/* Keys: what the engine stores of a row in each index. The engine compares keys byte by byte, so a key is made of images of the
   columns that compare as the columns do, one after the other.

   A column that can be NULL begins with a byte: 0 for NULL, which has nothing more, or 1. Columns of a fixed length have images of a
   fixed length: integers with the highest byte first and the sign turned around, others as the server sorts them. Texts and binary
   strings of a varying length are encoded as collation_key.h says. The bytes of a descending column are turned around. No image of a
   column begins another one, so rows with the same first columns are neighbours. */

#ifndef PERDURA_KEY_IMAGES_H
#define PERDURA_KEY_IMAGES_H

#include "collation_key.h"
#include "perdura_server.h"

#include <memory>

namespace perdura {

/* A column of an index. */
struct Key_part
{
  enum class Image : uchar { INTEGER, SORTED, BYTES, BINARY_STRING, TEXT } image;
  enum class Place : uchar { FIXED, VARCHAR, BLOB } place;
  bool is_signed;
  bool is_reverse;
  /* Bytes of length in front of a varchar or blob in a record. */
  uchar length_bytes;
  uchar null_bit;
  uint null_offset;
  uint offset;
  /* Bytes in a record: all of a fixed column, at most of a varchar's content. */
  uint record_bytes;
  /* Bytes in a key of the server, without the byte for NULL and the length. */
  uint length;
  uint store_length;
  Field *field;
  const Collation_key *collation;
};

/* Makes the keys of one open table. */
class Key_images
{
public:
  explicit Key_images(TABLE *table);

  uint count() const { return static_cast<uint>(m_indexes.size()); }
  const PerduraIndex *definitions() const { return m_definitions.data(); }
  /* Whether a column of the index is computed by the server. */
  bool has_virtual(uint index) const { return m_indexes[index].has_virtual; }

  /* Two keys can be made at a time of each index. */
  enum class Slot { FIRST, SECOND };
  /* The key of a record. False if it is too long. */
  bool make(uint index, const uchar *record, Slot slot, PerduraKey *key);
  /* The beginning of keys that a key of the server asks for. `whole` is set to whether it is a whole key that does not repeat. */
  PerduraKey search(uint index, const uchar *tuple, key_part_map parts, Slot slot, bool *whole);
  /* Where the image of a column ends in a key, of which the columns before end at `at`. */
  size_t part_end(uint index, uint part, const uchar *key, size_t length, size_t at) const;
  /* Whether the columns of the index hold the same bytes in both records. */
  bool is_same(uint index, const uchar *before, const uchar *after) const;

private:
  struct Index
  {
    std::vector<Key_part> parts;
    bool may_repeat;
    bool has_virtual;
    /* Room for a key, and where it is. */
    size_t room;
    size_t place;
  };

  /* A column's value, in a record or in a key of the server. */
  struct Value
  {
    const uchar *bytes;
    size_t length;
  };

  void add_index(TABLE *table, const KEY &key);
  Key_part describe(TABLE *table, const KEY_PART_INFO &info);
  const Collation_key *collation_key(CHARSET_INFO *collation, bool is_fixed);
  size_t image_bytes(const Key_part &part) const;
  uchar *slot(uint index, Slot which);
  static Value value(const Key_part &part, const uchar *record);
  void put(Key_writer *writer, const Key_part &part, Value value);

  std::vector<Index> m_indexes;
  std::vector<PerduraIndex> m_definitions;
  std::vector<std::unique_ptr<Collation_key>> m_collations;
  std::vector<uchar> m_keys;
  std::vector<uchar> m_weights;
};

} // namespace perdura

#endif
