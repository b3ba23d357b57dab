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

/* Features of keys that the server has and the engine does not: a table with one is refused, with
   the reason and what to use instead, or made with the key as a definition only. */

#ifndef PERDURA_MISSING_FEATURES_H
#define PERDURA_MISSING_FEATURES_H

#include "perdura_plugin.h"

namespace perdura {

/* Flags by which the server lets the engine itself refuse such keys: of a handler without a table,
   by which it judges a definition. */
constexpr handler::Table_flags FLAGS_OF_DEFINITIONS= HA_CAN_FULLTEXT | HA_CAN_RTREEKEYS;

/* Refuses a new table for its keys, with an error, or warns of each. Returns a handler error. */
int check_missing_features(THD *thd, const TABLE *form);
/* Whether a table has a key that the server would not keep as it means it. */
bool has_missing_features(const TABLE *form);
/* The type of a key as it was defined. */
const char *type_of_index(const TABLE_SHARE *share, uint index);
/* How many keys have an index in the engine. The server puts the others last. */
uint kept_keys(const TABLE_SHARE *share);
/* Keeps the server from reading through keys that are a definition only; SHOW INDEX tells that they
   are disabled. */
void disable_missing_keys(TABLE *table);

} // namespace perdura

#endif
