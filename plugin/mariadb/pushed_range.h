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

/* A condition on the key of an integer column that is a range of its values. The search through the
   index is bounded by it, so that nothing is evaluated at each entry. */

#ifndef PERDURA_PUSHED_RANGE_H
#define PERDURA_PUSHED_RANGE_H

#include "key_images.h"

namespace perdura {

/* The bounds that a condition sets to the one column of a key. */
class Pushed_range
{
public:
  bool is_set() const { return m_length; }
  /* Takes a condition on index `index`, of one column; nothing is set so far. False if it says
     more than a range of an integer column does, or that there is none. */
  bool take(TABLE *table, uint index, Key_images *keys, Item *condition);
  /* Narrows the bounds of a search for the next greater keys. */
  void narrow(PerduraBound *begin, PerduraBound *end) const;

private:
  struct Bound
  {
    PerduraBoundKind kind;
    uchar image[sizeof(longlong)];
  };

  static Bound bound(uint index, Key_images *keys, longlong value, bool is_excluded);
  static void narrow(PerduraBound *found, const Bound &set, size_t length, bool is_end);

  Bound m_begin= {}, m_end= {};
  /* Bytes of the images; 0 if none are set. */
  size_t m_length= 0;
};

} // namespace perdura

#endif
