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

/* SEQUENCE objects, as the rest of the plugin knows them. */

#ifndef PERDURA_SEQUENCES_H
#define PERDURA_SEQUENCES_H

#include "perdura_plugin.h"

namespace perdura {

/* The handler of a sequence's table. */
handler *create_sequence_handler(handlerton *hton, TABLE_SHARE *share, MEM_ROOT *root);

/* Whether the pool has something else than a sequence under this path, and knows the server's
   definition of it. */
bool is_no_sequence(const char *path);

} // namespace perdura

#endif
