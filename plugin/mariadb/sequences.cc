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

/* SEQUENCE objects. The server keeps one in a table of one row, through a handler of its own that
   calls this one, and takes turns in using it. Changes are transactions of their own, so they do
   not take part in those of the connection: a range of values that is reserved stays so. */

#include "ha_perdura.h"
#include "sequences.h"

using namespace perdura;

namespace {

/* The handler of a sequence's table. */
class Sequence_handler final : public ha_perdura
{
public:
  using ha_perdura::ha_perdura;

  int create(const char *name, TABLE *form, HA_CREATE_INFO *info) override;
  int repair(THD *, HA_CHECK_OPT *) override { return HA_ADMIN_NOT_IMPLEMENTED; }
  enum_alter_inplace_result check_if_supported_inplace_alter(TABLE *, Alter_inplace_info *info) override
  {
    info->unsupported_reason= "SEQUENCE";
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }

  int external_lock(THD *, int) override { return 0; }
  int start_stmt(THD *, thr_lock_type) override { return 0; }

  int write_row(const uchar *record) override { return change(record); }
  int update_first_row(const uchar *record) override { return change(record); }

  int rnd_init(bool scan) override;
  int rnd_next(uchar *record) override;
  int rnd_end() override { return 0; }
  int rnd_pos(uchar *record, uchar *) override { return read(record, HA_ERR_RECORD_DELETED); }
  void position(const uchar *) override { memset(ref, 0, ref_length); }
  int reset() override { return 0; }

private:
  int change(const uchar *record);
  int read(uchar *record, int none);

  /* The scan has come to the row. */
  bool m_read= false;
};

int Sequence_handler::change(const uchar *record)
{
  return table_error(perdura_sequence_write(cursor(), record));
}

int Sequence_handler::read(uchar *record, int none)
{
  const PerduraCode code= perdura_sequence_read(cursor(), record);
  return code == PERDURA_CODE_END ? none : table_error(code);
}

int Sequence_handler::rnd_init(bool)
{
  m_read= false;
  return 0;
}

int Sequence_handler::rnd_next(uchar *record)
{
  if (m_read)
    return HA_ERR_END_OF_FILE;
  m_read= true;
  return read(record, HA_ERR_END_OF_FILE);
}

/* By the .frm file the server tells a sequence from a table before it opens either, and so for DROP
   SEQUENCE. It writes such files of this engine only as it opens a table. */
int Sequence_handler::create(const char *name, TABLE *form, HA_CREATE_INFO *info)
{
  const int error= ha_perdura::create(name, form, info);
  if (error || info->tmp_table() || !form->s->write_frm_image())
    return error;
  perdura_table_drop(pool, name);
  my_error(ER_CANT_CREATE_TABLE, MYF(0), form->s->db.str, form->s->table_name.str, my_errno);
  return HA_ERR_INTERNAL_ERROR;
}

} // namespace

handler *perdura::create_sequence_handler(handlerton *hton, TABLE_SHARE *share, MEM_ROOT *root)
{
  return new (root) Sequence_handler(hton, share);
}

/* Where a .frm image tells whether the table has the option SEQUENCE=1, and how. */
constexpr size_t CHOICES_OF_TABLE= 39;
constexpr uint CHOICE_OF_SEQUENCE_SHIFT= 4, CHOICE_MASK= 3;

bool perdura::is_no_sequence(const char *path)
{
  PerduraFrm *frm;
  if (perdura_frm_fetch(pool, path, &frm) != PERDURA_CODE_OK)
    return false;
  size_t bytes;
  const uint8_t *image= perdura_frm_data(frm, &bytes);
  const bool found= bytes > CHOICES_OF_TABLE &&
    (image[CHOICES_OF_TABLE] >> CHOICE_OF_SEQUENCE_SHIFT & CHOICE_MASK) == HA_CHOICE_YES;
  perdura_frm_release(frm);
  return !found;
}
