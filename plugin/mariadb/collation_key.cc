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

/* The encoding of texts in keys. collation_key.h describes it. */

#include "collation_key.h"

namespace perdura {

/* The two collations whose weights are those of several passes over the text, with trailing spaces
   left out. */
static bool is_czech(CHARSET_INFO *collation)
{
  return collation->coll && !collation->uca && collation->levels_for_order > 1;
}

/* Numbers of collations whose weights are not the server's. */
constexpr uint BIG5_CHINESE= 1, BIG5_CHINESE_NOPAD= 1025, TIS620_THAI_NOPAD= 1042;

Collation_key::Collation_key(CHARSET_INFO *collation, bool is_fixed)
    : m_collation(collation), m_is_fixed(is_fixed), m_pads(!(collation->state & MY_CS_NOPAD)), m_weights(Weights::SERVER)
{
  if (collation->number == BIG5_CHINESE || collation->number == BIG5_CHINESE_NOPAD)
    m_weights= Weights::CODES;
  else if (collation->number == TIS620_THAI_NOPAD)
    m_weights= Weights::UP_TO_ZERO;
  if (!collation->uca || my_count_bits_uint32(collation->levels_for_order) < 2)
  {
    add_level(0, m_pads);
    return;
  }
  for (uint level= 0; level < MY_STRXFRM_NLEVELS; level++)
    if (collation->levels_for_order >> level & 1)
      add_level(MY_STRXFRM_LEVEL1 << level, m_pads || (level > 0 && !is_fixed));
}

void Collation_key::add_level(uint flags, bool pads)
{
  Level level= {flags, 0, {}};
  uchar space[UNIT_MAX * 2], weights[UNIT_MAX * 4];
  const int bytes= m_collation->cset->wc_mb(m_collation, ' ', space, space + sizeof(space));
  if (pads && bytes > 0 && !is_czech(m_collation))
  {
    const size_t found= weigh(level, space, static_cast<size_t>(bytes), weights, sizeof(weights));
    if (found <= UNIT_MAX)
    {
      level.space_bytes= found;
      memcpy(level.space, weights, found);
    }
  }
  m_levels.push_back(level);
}

/* The codes of the characters, those of one byte in the collation's order. */
static size_t put_codes(CHARSET_INFO *collation, const uchar *text, size_t length, uchar *weights, size_t room)
{
  const uchar *end= text + length;
  uchar *at= weights, *stop= weights + room;
  while (text < end && at < stop)
  {
    const bool is_long= my_ci_charlen(collation, text, end) > 1;
    *at++= is_long ? *text : collation->sort_order[*text];
    text++;
    if (is_long && at < stop)
      *at++= *text++;
  }
  return static_cast<size_t>(at - weights);
}

/* The weights of a text on one level. */
size_t Collation_key::weigh(const Level &level, const uchar *text, size_t length, uchar *weights, size_t room) const
{
  if (m_weights == Weights::CODES)
    return put_codes(m_collation, text, length, weights, room);
  const size_t bytes= m_collation->strnxfrm(weights, room, UINT_MAX32, text, length, level.flags);
  return m_weights == Weights::UP_TO_ZERO ? strnlen(reinterpret_cast<const char *>(weights), bytes) : bytes;
}

bool Collation_key::keeps_bytes() const
{
  if (m_collation->mbmaxlen != 1 || !(m_collation->state & MY_CS_BINSORT) || m_levels.size() != 1 || m_weights != Weights::SERVER)
    return false;
  for (uint code= 0; code < 256; code++)
  {
    const uchar byte= static_cast<uchar>(code);
    uchar weights[UNIT_MAX];
    if (weigh(m_levels[0], &byte, 1, weights, sizeof(weights)) != 1 || weights[0] != byte)
      return false;
  }
  return !m_pads || (m_levels[0].space_bytes == 1 && m_levels[0].space[0] == ' ');
}

void put_escaped(Key_writer *writer, const uchar *bytes, size_t length)
{
  const uchar *const end= bytes + length;
  while (bytes < end)
  {
    const uchar *zero= static_cast<const uchar *>(memchr(bytes, 0, static_cast<size_t>(end - bytes)));
    const uchar *stop= zero ? zero + 1 : end;
    writer->put(bytes, static_cast<size_t>(stop - bytes));
    if (zero)
      writer->put(ZERO_ESCAPED);
    bytes= stop;
  }
  writer->put(0);
  writer->put(ZERO_LAST);
}

size_t escaped_end(const uchar *key, size_t length, size_t at, uchar turned)
{
  for (; at + 1 < length; at++)
    if (!(key[at] ^ turned) && (key[++at] ^ turned) == ZERO_LAST)
      return at + 1;
  return length;
}

/* Appends weights of UNIT bytes each, up to the trailing spaces. */
template <size_t UNIT> static void put_padded(Key_writer *writer, const uchar *weights, size_t length, const uchar *space)
{
  const uchar *at= weights, *end= weights + length - length % UNIT;
  while (end > weights && !memcmp(end - UNIT, space, UNIT))
    end-= UNIT;
  while (at < end)
  {
    const uchar *run= at;
    for (; run < end && memcmp(run, space, UNIT); run+= UNIT) {}
    writer->put(at, static_cast<size_t>(run - at));
    for (at= run; at < end && !memcmp(at, space, UNIT); at+= UNIT) {}
    if (at == run)
      break;
    const uchar mark= memcmp(at, space, UNIT) < 0 ? SPACE_LOW : SPACE_HIGH;
    for (; run < at; run+= UNIT)
    {
      writer->put(space, UNIT);
      writer->put(mark);
    }
  }
  writer->put(space, UNIT);
  writer->put(SPACE_END);
}

void Collation_key::put(Key_writer *writer, const uchar *text, size_t length, uchar *weights, size_t room) const
{
  if (m_pads)
    length= m_collation->lengthsp(reinterpret_cast<const char *>(text), length);
  for (const Level &level : m_levels)
  {
    size_t bytes= weigh(level, text, length, weights, room);
    if (unlikely(bytes + MARGIN > room))
    {
      writer->cut();
      bytes= std::min(bytes, room);
    }
    switch (level.space_bytes) {
    case 1: put_padded<1>(writer, weights, bytes, level.space); break;
    case 2: put_padded<2>(writer, weights, bytes, level.space); break;
    case 3: put_padded<3>(writer, weights, bytes, level.space); break;
    case 4: put_padded<4>(writer, weights, bytes, level.space); break;
    default: put_escaped(writer, weights, bytes);
    }
  }
}

size_t Collation_key::end(const uchar *key, size_t length, size_t at, uchar turned) const
{
  for (const Level &level : m_levels)
  {
    const size_t unit= level.space_bytes;
    if (!unit)
    {
      at= escaped_end(key, length, at, turned);
      continue;
    }
    const auto is_space= [&](size_t place) {
      for (size_t byte= 0; byte < unit; byte++)
        if ((key[place + byte] ^ turned) != level.space[byte])
          return false;
      return true;
    };
    for (bool goes_on= true; goes_on && at + unit < length; at+= unit)
      if (is_space(at))
        goes_on= (key[unit + at++] ^ turned) != SPACE_END;
  }
  return std::min(at, length);
}

} // namespace perdura
