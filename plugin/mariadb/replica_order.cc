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

/* The order of a parallel replica's commits, where the server does not keep it.

   A transaction whose rows are here and whose position in mysql.gtid_slave_pos is InnoDB's, at a
   replica that has a binary log and does not write to it (log_slave_updates is OFF), is prepared in
   both engines and then committed in each, without waiting for those before it. So PREPARE waits
   for them. The first engine that commits wakes the worker behind, and that need not be this one:
   so whoever waits also waits until no earlier transaction is prepared here and not ended. Each of
   those is in its commit, which waits for no worker behind it. */

#include "perdura_plugin.h"

#include "rpl_rli.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <map>
#include <mutex>

namespace perdura {

/* In the order of the primary's binary log, within a domain. */
struct Place
{
  uint32 domain;
  uint64 number;

  bool is_before(const Place &other) const { return domain == other.domain && number < other.number; }
};

/* One element at most for each worker. */
static std::map<const THD *, Place> committing;
static std::mutex committing_mutex;
static std::condition_variable commit_ended;

/* False if the thread applies no event group of a parallel replica. */
static bool has_place(const THD *thd, Place *place)
{
  const rpl_group_info *group= thd->rgi_slave;
  if (!group || !group->is_parallel_exec || !group->gtid_sub_id)
    return false;
  *place= {group->current_gtid.domain_id, group->gtid_sub_id};
  return true;
}

/* XA PREPARE is no commit: the transaction may stay prepared for long. */
int replica_commit_begins(THD *thd)
{
  Place place;
  if (likely(!has_place(thd, &place)) || thd->transaction->xid_state.is_explicit_XA())
    return 0;
  const bool is_ordered= !opt_bin_log || thd_test_options(thd, OPTION_BIN_LOG);
  if (const int error= is_ordered ? 0 : wait_for_prior_transactions(thd))
    return error;
  const std::lock_guard<std::mutex> guard(committing_mutex);
  committing[thd]= place;
  return 0;
}

void replica_commit_ends(const THD *thd)
{
  if (likely(!thd->slave_thread))
    return;
  const std::lock_guard<std::mutex> guard(committing_mutex);
  if (committing.erase(thd))
    commit_ended.notify_all();
}

/* How often a worker that waits looks whether it has been killed. */
static constexpr std::chrono::milliseconds KILL_CHECK{50};

int wait_for_prior_transactions(THD *thd)
{
  if (thd->wait_for_prior_commit())
    return HA_ERR_GENERIC;
  Place place;
  if (!has_place(thd, &place))
    return 0;
  const auto is_before= [&](const auto &element) { return element.second.is_before(place); };
  std::unique_lock<std::mutex> lock(committing_mutex);
  while (std::any_of(committing.begin(), committing.end(), is_before))
  {
    if (thd_killed(thd))
      return HA_ERR_ABORTED_BY_USER;
    commit_ended.wait_for(lock, KILL_CHECK);
  }
  return 0;
}

} // namespace perdura
