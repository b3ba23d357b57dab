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

/* Keys: what the engine stores of a row in each index. The engine compares keys byte by byte, so a
   key is made of images of the columns that compare as the columns do, one after the other.

   A column that can be NULL begins with a byte: 0 for NULL, which has nothing more, or 1. Columns
   of a fixed length have images of a fixed length: integers with the highest byte first and the
   sign turned around, others as the server sorts them. Texts and binary strings of a varying length
   are encoded as collation_key.h says. The bytes of a descending column are turned around. No image
   of a column begins another one, so rows with the same first columns are neighbours.

   Of a unique key that is too long the server indexes a hash, and different rows often have the
   same one: it is a sum over the bytes. So behind the image of that hash comes one of 16 bytes that
   the plugin makes of the columns, by their collations. Rows with both in common have the same
   columns, as far as 128 bits tell. */

#ifndef PERDURA_KEY_IMAGES_H
#define PERDURA_KEY_IMAGES_H

#include "collation_key.h"
#include "perdura_server.h"

#include <memory>

namespace perdura {

constexpr PerduraBound NO_BOUND= {PERDURA_BOUND_KIND_NONE, nullptr, 0};

/* First byte of the image of a column that can be NULL. */
constexpr uchar IS_NULL= 0, IS_VALUE= 1;

/* How the bytes of a column in a record come out of its image, if they do: SAME, or in REVERSED
   order, numbers with the sign turned back, a DATE likewise after a check of its month, ESCAPED as
   collation_key.h says, or PADDED likewise. */
enum class Way_back : uchar { NONE, SAME, REVERSED, DATE, FLOAT, DOUBLE, ESCAPED, PADDED };

/* The way back for a part of an index. It holds for fields of an open table and of its share. */
Way_back way_back(const Field *field, const KEY_PART_INFO &info);

/* Whether a column holds integers. */
bool is_integer(const Field *field);

/* A column of an index. */
struct Key_part
{
  enum class Image : uchar { INTEGER, SORTED, BYTES, BINARY_STRING, TEXT } image;
  enum class Place : uchar { FIXED, VARCHAR, BLOB } place;
  Way_back back;
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
  /* Of lists of columns, whole and ascending, which need not have an index in the table. */
  Key_images(TABLE *table, const std::vector<std::vector<uint>> &lists);

  uint count() const { return static_cast<uint>(m_indexes.size()); }
  const PerduraIndex *definitions() const { return m_definitions.data(); }
  /* Whether a column of the index is computed by the server. */
  bool has_virtual(uint index) const { return m_indexes[index].has_virtual; }

  /* Two keys can be made at a time of each index. */
  enum class Slot { FIRST, SECOND };
  /* The key of a record. False if it is too long. */
  bool make(uint index, const uchar *record, Slot slot, PerduraKey *key);
  /* How another table's index has the columns of a list. */
  struct Form
  {
    bool has_null, is_reverse;
  };
  /* Outcome of making the beginning of the keys that such an index has for a record: made; a column
     is NULL; or it is longer than any key. */
  enum class Made { KEY, NULL_COLUMN, TOO_LONG };
  Made make_in_form(uint index, const uchar *record, const std::vector<Form> &form, PerduraKey *key);
  /* The beginning of keys that a key of the server asks for. `whole` is set to whether it is a
     whole key that does not repeat. */
  PerduraKey search(uint index, const uchar *tuple, key_part_map parts, Slot slot, bool *whole);
  /* The bound at which a range of the server ends. */
  PerduraBound end_of(uint index, const key_range &range)
  {
    bool whole;
    const PerduraKey key= search(index, range.key, range.keypart_map, Slot::SECOND, &whole);
    return {range.flag == HA_READ_BEFORE_KEY ? PERDURA_BOUND_KIND_EXCLUDED : PERDURA_BOUND_KIND_INCLUDED, key.bytes, key.length};
  }
  /* Where the image of a column ends in a key, of which the columns before end at `at`. */
  size_t part_end(uint index, uint part, const uchar *key, size_t length, size_t at) const;
  /* Whether the columns of the index hold the same bytes in both records. */
  bool is_same(uint index, const uchar *before, const uchar *after) const;
  bool is_same_part(uint index, size_t part, const uchar *before, const uchar *after) const
  {
    return is_same_value(m_indexes[index].parts[part], before, after);
  }

  /* A set of parts of an index, a bit for each. */
  typedef uint32 Parts;
  /* The parts with a way back. */
  Parts restorable(uint index) const { return m_indexes[index].restorable; }
  /* The parts whose columns are in `columns`. */
  Parts parts_of(uint index, const MY_BITMAP *columns) const;
  /* Outcome of taking columns out of a key: all are told; not the bytes of each; or it is no key of
     the index. */
  enum class Told { ALL, NOT_ALL, DAMAGED };
  /* Fills in the columns of `parts`, which are restorable, from a key. */
  Told restore(uint index, Parts parts, const uchar *key, size_t length, uchar *record) const;

private:
  /* fuzz/key_damage.cc, which makes indexes without a table. */
  friend class Key_damage;
  Key_images() = default;

  struct Index
  {
    std::vector<Key_part> parts;
    /* The columns behind the server's hash, if the only part is one. */
    std::vector<Key_part> hashed;
    bool may_repeat;
    bool has_virtual;
    Parts restorable;
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
  void place_keys();
  static Key_part locate(TABLE *table, const KEY_PART_INFO &info);
  Key_part describe(TABLE *table, const KEY_PART_INFO &info);
  const Collation_key *collation_key(CHARSET_INFO *collation, bool is_fixed);
  size_t image_bytes(const Key_part &part) const;
  uchar *slot(uint index, Slot which);
  static Value value(const Key_part &part, const uchar *record);
  void put(Key_writer *writer, const Key_part &part, Value value);
  static void put_hash(Key_writer *writer, const Index &index, const uchar *record);
  static bool is_same_value(const Key_part &part, const uchar *before, const uchar *after);

  std::vector<Index> m_indexes;
  std::vector<PerduraIndex> m_definitions;
  std::vector<std::unique_ptr<Collation_key>> m_collations;
  std::vector<uchar> m_keys;
  std::vector<uchar> m_weights;
};

} // namespace perdura

#endif
