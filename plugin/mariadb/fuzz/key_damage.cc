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


/* Damaged keys: reads columns back from keys of random layouts (key_columns.cc), sound ones and
   ones with bytes changed, cut off or added.

   The hazard: a key comes from a file of the pool, so any byte of it may be wrong; a length or an
   end that is believed would read beyond the key or write beyond the column. Sound keys give the
   record back. Damaged ones give a record whose texts fit their columns and whose dates have a
   month, or are refused, which the handler reports with the index's name; nothing outside the
   columns changes. Key and record lie in memory of their own length, and the address sanitizer
   watches. Keys are made here by the rules in key_images.h, not by the code beside them.

   key_damage SEED KEYS */

#include "../key_images.h"

#include <cstdio>
#include <random>

namespace perdura {

constexpr uchar UNTOUCHED= 0xa5;
/* A date: days in five bits, months in four, then the year, the lowest byte first. */
constexpr uint DATE_BYTES= 3, MONTHS= 12;

static uint month_of(const uchar *date) { return (date[0] | date[1] << 8) >> 5 & 15; }

/* Makes an index without a table, of columns in a record, with gaps between them. */
class Key_damage
{
public:
  explicit Key_damage(uint64_t seed) : m_random(seed) {}

  bool run();

  size_t damaged= 0, refused= 0;

private:
  uint below(uint bound) { return static_cast<uint>(m_random() % bound); }
  bool one_in(uint count) { return below(count) == 0; }

  void lay_out();
  Key_part column(uint kind);
  void fill(const Key_part &part);
  void append(const Key_part &part);
  void append_text(const Key_part &part, const uchar *text, size_t length);
  std::vector<uchar> damage(std::vector<uchar> key);
  bool check(const std::vector<uchar> &key, bool is_sound);
  bool is_whole(const Key_part &part, const std::vector<uchar> &record) const;
  bool is_restored(const Key_part &part, const std::vector<uchar> &record) const;

  std::mt19937_64 m_random;
  Key_images m_images;
  Key_images::Parts m_wanted= 0;
  std::vector<uchar> m_record, m_key;
  uint m_end= 0;
};

/* A column of one of the kinds that have a way back, or of two that have none. */
Key_part Key_damage::column(uint kind)
{
  using Image= Key_part::Image;
  static const uint INTEGERS[]= {1, 2, 3, 4, 8};
  Key_part part= {};
  part.is_reverse= one_in(4);
  part.record_bytes= 1 + below(40);
  switch (kind) {
  case 0:
    part.image= Image::INTEGER;
    part.back= Way_back::REVERSED;
    part.record_bytes= INTEGERS[below(5)];
    part.is_signed= one_in(2);
    break;
  case 1: part.image= Image::BYTES; part.back= Way_back::SAME; break;
  case 2: part.image= Image::SORTED; part.back= Way_back::FLOAT; part.record_bytes= sizeof(float); break;
  case 3: part.image= Image::SORTED; part.back= Way_back::DOUBLE; part.record_bytes= sizeof(double); break;
  case 4:
    part.image= Image::BINARY_STRING;
    part.back= Way_back::ESCAPED;
    part.place= Key_part::Place::VARCHAR;
    part.record_bytes= below(one_in(4) ? 600 : 20);
    part.length_bytes= part.record_bytes < 256 ? 1 : 2;
    break;
  case 5: part.image= Image::BINARY_STRING; part.back= Way_back::ESCAPED; break;
  case 6: part.image= Image::TEXT; part.back= Way_back::PADDED; break;
  case 7: part.image= Image::BINARY_STRING; part.back= Way_back::NONE; break;
  case 8:
    part.image= Image::INTEGER;
    part.back= Way_back::DATE;
    part.record_bytes= DATE_BYTES;
    break;
  default: part.image= Image::BYTES; part.back= Way_back::NONE;
  }
  part.length= part.record_bytes;
  if (one_in(3))
  {
    part.null_bit= static_cast<uchar>(1 << below(8));
    part.null_offset= m_end++;
  }
  m_end+= below(3);
  part.offset= m_end;
  m_end+= part.length_bytes + part.record_bytes;
  return part;
}

void Key_damage::lay_out()
{
  Key_images::Index index= {};
  const uint count= 1 + below(5);
  uint wanted= 0;
  for (uint number= 0; number < count; number++)
  {
    index.parts.push_back(column(below(10)));
    const Way_back back= index.parts.back().back;
    /* Where the weights of a collation end only the server's tables tell, so such a part is never
       passed by. */
    if (back == Way_back::PADDED || (back != Way_back::NONE && !one_in(4)))
      wanted|= 1u << number;
  }
  m_wanted= wanted;
  m_record.assign(m_end, UNTOUCHED);
  m_images.m_indexes.push_back(std::move(index));
  for (const Key_part &part : m_images.m_indexes[0].parts)
    fill(part);
}

/* Gives a column a value in the record: texts with zero bytes, spaces and their neighbours,
   mostly. */
void Key_damage::fill(const Key_part &part)
{
  static const uchar BYTES[]= {0, 0, 1, 2, 3, ' ', ' ', ' ', '!', 'a', 254, 255};
  if (part.null_bit)
    m_record[part.null_offset]= one_in(3) ? part.null_bit : 0;
  size_t length= part.record_bytes;
  if (part.length_bytes)
  {
    length= below(part.record_bytes + 1);
    m_record[part.offset]= static_cast<uchar>(length);
    if (part.length_bytes == 2)
      m_record[part.offset + 1]= static_cast<uchar>(length >> 8);
  }
  for (size_t i= 0; i < length; i++)
    m_record[part.offset + part.length_bytes + i]= one_in(4) ? static_cast<uchar>(below(256)) : BYTES[below(sizeof BYTES)];
  uchar *date= m_record.data() + part.offset;
  if (part.back == Way_back::DATE && month_of(date) > MONTHS)
    date[1]&= 254;
}

void Key_damage::append_text(const Key_part &part, const uchar *text, size_t length)
{
  if (part.back != Way_back::PADDED)
  {
    for (size_t i= 0; i < length; i++)
    {
      m_key.push_back(text[i]);
      if (!text[i])
        m_key.push_back(ZERO_ESCAPED);
    }
    m_key.insert(m_key.end(), {0, ZERO_LAST});
    return;
  }
  while (length && text[length - 1] == ' ')
    length--;
  for (size_t i= 0; i < length; i++)
  {
    m_key.push_back(text[i]);
    size_t next= i;
    while (text[next] == ' ')
      next++;
    if (next > i)
      m_key.push_back(text[next] < ' ' ? SPACE_LOW : SPACE_HIGH);
  }
  m_key.insert(m_key.end(), {' ', SPACE_END});
}

void Key_damage::append(const Key_part &part)
{
  const size_t from= m_key.size();
  const bool is_null= part.null_bit && m_record[part.null_offset] & part.null_bit;
  const uchar *value= m_record.data() + part.offset;
  if (part.null_bit)
    m_key.push_back(is_null ? 0 : 1);
  if (is_null)
    ;
  else if (part.image == Key_part::Image::BINARY_STRING || part.image == Key_part::Image::TEXT)
  {
    size_t length= part.record_bytes;
    if (part.length_bytes)
      length= value[0] | (part.length_bytes == 2 ? value[1] << 8 : 0);
    append_text(part, value + part.length_bytes, length);
  }
  else
  {
    const size_t head= m_key.size();
    m_key.insert(m_key.end(), value, value + part.record_bytes);
    uchar *image= m_key.data() + head;
    if (part.image != Key_part::Image::BYTES)
      std::reverse(image, image + part.record_bytes);
    if (part.image == Key_part::Image::INTEGER && part.is_signed)
      image[0]^= 128;
    if (part.image == Key_part::Image::SORTED)
    {
      if (image[0] & 128)
        std::transform(image, image + part.record_bytes, image, [](uchar byte) { return static_cast<uchar>(~byte); });
      else
      {
        const uint unit= part.back == Way_back::FLOAT ? 1 << 7 : 1 << 4;
        const uint top= ((image[0] << 8 | image[1]) + unit) | 0x8000;
        image[0]= static_cast<uchar>(top >> 8);
        image[1]= static_cast<uchar>(top);
      }
    }
  }
  if (part.is_reverse)
    std::transform(m_key.begin() + from, m_key.end(), m_key.begin() + from, [](uchar byte) { return static_cast<uchar>(~byte); });
}

std::vector<uchar> Key_damage::damage(std::vector<uchar> key)
{
  for (uint count= 1 + below(4); count; count--)
  {
    const uint place= key.empty() ? 0 : below(static_cast<uint>(key.size()));
    switch (below(5)) {
    case 0: key.resize(place); break;
    case 1: key.insert(key.begin() + place, static_cast<uchar>(below(256))); break;
    case 2: key.resize(key.size() + below(20), static_cast<uchar>(below(3))); break;
    default:
      if (!key.empty())
        key[place]= one_in(2) ? static_cast<uchar>(key[place] ^ 1 << below(8)) : static_cast<uchar>(below(256));
    }
  }
  return key;
}

/* Whether a text fits its column, and a date has a month. */
bool Key_damage::is_whole(const Key_part &part, const std::vector<uchar> &record) const
{
  const uchar *value= record.data() + part.offset;
  const bool is_null= part.null_bit && record[part.null_offset] & part.null_bit;
  if (part.back == Way_back::DATE)
    return is_null || month_of(value) <= MONTHS;
  return is_null || !part.length_bytes || (value[0] | (part.length_bytes == 2 ? value[1] << 8 : 0u)) <= part.record_bytes;
}

bool Key_damage::is_restored(const Key_part &part, const std::vector<uchar> &record) const
{
  if (part.null_bit && (m_record[part.null_offset] ^ record[part.null_offset]) & part.null_bit)
    return false;
  if (part.null_bit && record[part.null_offset] & part.null_bit)
    return true;
  const uchar *was= m_record.data() + part.offset, *is= record.data() + part.offset;
  size_t bytes= part.record_bytes + part.length_bytes;
  if (part.length_bytes)
    bytes= part.length_bytes + (was[0] | (part.length_bytes == 2 ? was[1] << 8 : 0u));
  return !memcmp(was, is, bytes);
}

/* Reads the wanted columns of a key. */
bool Key_damage::check(const std::vector<uchar> &key, bool is_sound)
{
  using Told= Key_images::Told;
  std::vector<uchar> record(m_record.size(), UNTOUCHED), columns(m_record.size(), 0);
  /* A copy of exactly the key's length: a vector may have room behind its end. */
  std::unique_ptr<uchar[]> bytes(new uchar[key.size()]);
  std::copy(key.begin(), key.end(), bytes.get());
  const Told told= m_images.restore(0, m_wanted, bytes.get(), key.size(), record.data());
  refused+= told == Told::DAMAGED;
  bool is_right= !is_sound || told != Told::DAMAGED;
  for (size_t number= 0; number < m_images.m_indexes[0].parts.size(); number++)
  {
    if (!(m_wanted >> number & 1))
      continue;
    const Key_part &part= m_images.m_indexes[0].parts[number];
    std::fill_n(columns.begin() + part.offset, part.record_bytes + part.length_bytes, 1);
    if (part.null_bit)
      columns[part.null_offset]= 1;
    is_right&= told != Told::ALL || (is_sound ? is_restored(part, record) : is_whole(part, record));
  }
  for (size_t i= 0; i < record.size(); i++)
    is_right&= columns[i] || record[i] == UNTOUCHED;
  return is_right;
}

bool Key_damage::run()
{
  lay_out();
  for (const Key_part &part : m_images.m_indexes[0].parts)
    append(part);
  if (!check(m_key, true))
    return false;
  for (int round= 0; round < 8; round++, damaged++)
    if (!check(damage(m_key), false))
      return false;
  return true;
}

} // namespace perdura

int main(int count, char **words)
{
  const uint64_t seed= count > 1 ? strtoull(words[1], nullptr, 10) : 1;
  const uint64_t keys= count > 2 ? strtoull(words[2], nullptr, 10) : 100000;
  size_t damaged= 0, refused= 0;
  for (uint64_t key= 0; key < keys; key++)
  {
    perdura::Key_damage run(seed + key);
    if (!run.run())
    {
      fprintf(stderr, "key_damage: a key is read back wrongly: run again with %llu 1\n", (unsigned long long) (seed + key));
      return 1;
    }
    damaged+= run.damaged;
    refused+= run.refused;
  }
  printf("key_damage: %llu keys read back, of %zu damaged ones %zu refused\n", (unsigned long long) keys, damaged, refused);
  return damaged && !refused;
}
