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

/* Texts in keys: the weights that a collation gives a text, encoded so that they compare like the
   text, whatever follows them.

   A collation that pads compares two texts as if the shorter one ended in spaces without end. The
   weights lose their trailing spaces and get an end instead: the weight of a space, then END. Each
   space before the end is followed by LOW or HIGH, which says whether the first weight behind the
   run of spaces is below or above that of a space. So an end is compared with spaces and with what
   comes after them as the missing spaces would be.

   A collation that does not pad, and binary strings, end in two zero bytes. A zero byte before the
   end is followed by 255.

   A collation of several levels compares the texts on one level after the other. If it does not
   pad, that holds for the first level, and for columns of a fixed length for the others too.

   The weights are the server's, except where its comparison of texts does not follow them:
   big5_chinese_ci compares the codes of characters, whatever their strokes; tis620_thai_nopad_ci
   ends a text at its first zero byte. */

#ifndef PERDURA_COLLATION_KEY_H
#define PERDURA_COLLATION_KEY_H

#include "server.h"

#include <vector>

namespace perdura {

/* Writes a key into a buffer. What does not fit is left out, and noted. */
class Key_writer
{
public:
  Key_writer(uchar *start, size_t room) : m_start(start), m_at(start), m_end(start + room) {}

  void put(uchar byte)
  {
    if (likely(m_at < m_end))
      *m_at++= byte;
    else
      m_cut= true;
  }

  void put(const uchar *bytes, size_t length)
  {
    if (unlikely(length > static_cast<size_t>(m_end - m_at)))
    {
      length= static_cast<size_t>(m_end - m_at);
      m_cut= true;
    }
    memcpy(m_at, bytes, length);
    m_at+= length;
  }

  /* Turns around the order of all that follows `from`. */
  void invert(uchar *from)
  {
    for (; from < m_at; from++)
      *from= static_cast<uchar>(~*from);
  }

  void cut() { m_cut= true; }
  bool is_cut() const { return m_cut; }
  uchar *at() const { return m_at; }
  size_t length() const { return static_cast<size_t>(m_at - m_start); }

private:
  uchar *m_start, *m_at, *m_end;
  bool m_cut= false;
};

/* Byte behind a space before the end, the end itself, and a space before greater weights. */
constexpr uchar SPACE_LOW= 1, SPACE_END= 2, SPACE_HIGH= 3;
/* Byte behind a zero byte, and the end of a text that is not padded. */
constexpr uchar ZERO_ESCAPED= 255, ZERO_LAST= 0;

/* Bytes without a collation. */
void put_escaped(Key_writer *writer, const uchar *bytes, size_t length);
/* Where they end in a key, whose bytes are turned around if `turned` is 255. */
size_t escaped_end(const uchar *key, size_t length, size_t at, uchar turned);

/* How one collation's texts are encoded. */
class Collation_key
{
public:
  Collation_key(CHARSET_INFO *collation, bool is_fixed);

  CHARSET_INFO *collation() const { return m_collation; }
  /* Whether the texts are those of a column of a fixed length. */
  bool is_fixed() const { return m_is_fixed; }
  /* Whether texts are compared as if trailing spaces went on without end, so that keys tell nothing
     of them. */
  bool pads() const { return m_pads; }
  /* Whether the weights of a text are its bytes, each. */
  bool keeps_bytes() const;
  /* Room that the weights of a text take, on one level. */
  size_t weight_bytes(size_t text_bytes) const { return m_collation->strnxfrmlen(text_bytes) + MARGIN; }
  /* The most bytes that a text takes in a key. */
  size_t key_bytes(size_t text_bytes) const { return m_levels.size() * 2 * (weight_bytes(text_bytes) + UNIT_MAX); }
  /* Appends a text. `weights` has the room for the weights of the longest one. */
  void put(Key_writer *writer, const uchar *text, size_t length, uchar *weights, size_t room) const;
  /* Where a text ends in a key, whose bytes are turned around if `turned` is 255. */
  size_t end(const uchar *key, size_t length, size_t at, uchar turned) const;

private:
  /* Weights that fill their room to less than this may have lost the last. */
  static constexpr size_t MARGIN= 8;
  static constexpr size_t UNIT_MAX= 4;

  enum class Weights { SERVER, CODES, UP_TO_ZERO };

  /* A level of the collation: what it is called in strnxfrm(), and its weight of a space. */
  struct Level
  {
    uint flags;
    size_t space_bytes;
    uchar space[UNIT_MAX];
  };

  void add_level(uint flags, bool pads);
  size_t weigh(const Level &level, const uchar *text, size_t length, uchar *weights, size_t room) const;

  CHARSET_INFO *m_collation;
  bool m_is_fixed;
  bool m_pads;
  Weights m_weights;
  std::vector<Level> m_levels;
};

} // namespace perdura

#endif
