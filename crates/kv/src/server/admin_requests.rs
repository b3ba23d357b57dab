//! Requests of operators, and those that wait for an outcome.

use raft::eraftpb::{ConfChangeType, ConfState};
use slog::info;

use super::admin::{AdminRequest, AdminResponse, Member, State};
use super::handshake::{Addresses, Handshake, RESPONSE_BYTES_MAX};
use super::inbound::Kind;
use super::link::Link;
use super::peer_directory;
use super::state::{Handover, Server};
use crate::codec::{all_members, change_of};
use crate::config::{StoreKind, is_address};
use crate::machine::key;
use crate::node::{Outcome, Rejection, Role};
use crate::store;

/// Entries that a replica may have to apply yet and be called ready.
const READY_LAG_MAX: u64 = 1000;

fn failed(why: impl Into<String>) -> AdminResponse {
    AdminResponse::Failed { why: why.into() }
}

impl Server {
    /// Answers a question, at once or when it is done.
    pub fn ask(&mut self, key: u64, question: &[u8]) -> store::Result<()> {
        let answer = match serde_json::from_slice(question) {
            Err(error) => Some(failed(format!("a question that this version does not know: {error}"))),
            Ok(AdminRequest::Status) => Some(AdminResponse::Status(Box::new(self.state()))),
            Ok(AdminRequest::Backup) => self.ask_for_backup(key)?,
            Ok(question) if self.node.status().role == Role::Leader => self.ask_leader(key, question)?,
            Ok(_) => Some(self.elsewhere()),
        };
        if let Some(answer) = answer {
            self.answer(key, &answer);
        }
        Ok(())
    }

    /// Answers an operator.
    pub fn answer(&mut self, key: u64, answer: &AdminResponse) {
        let Some(connection) = self.inbound.get_mut(&key) else { return };
        let bytes = serde_json::to_vec(answer).unwrap_or_default();
        let fits = bytes.len() < RESPONSE_BYTES_MAX;
        let bytes = if fits { bytes } else { br#"{"failed":{"why":"the answer is too long"}}"#.to_vec() };
        connection.say(&Handshake::AdminResponse(bytes.into()));
    }

    fn elsewhere(&self) -> AdminResponse {
        let leader = self.node.status().leader;
        let peer = self.directory.find(leader).map(|addresses| addresses.peer.clone()).unwrap_or_default();
        AdminResponse::Elsewhere { leader, peer }
    }

    fn not_now(&self, not_now: Rejection) -> AdminResponse {
        match not_now {
            Rejection::NotLeader { .. } => self.elsewhere(),
            Rejection::Busy => AdminResponse::Busy { why: "another change of members is under way".into() },
            Rejection::MakesRoom => AdminResponse::Busy { why: "the leader's store makes room".into() },
            Rejection::TooLarge => failed("a cluster has at most 31 members"),
            Rejection::Full => failed("the leader's store has no room: delete keys"),
        }
    }

    /// Why a replica cannot be a member with these addresses. What others could not be told would
    /// not be read back either.
    fn joining_objection(&self, question: &AdminRequest) -> Option<String> {
        let AdminRequest::Join { replica, peer, client } = question else { return None };
        if *replica == 0 {
            return Some("0 is no id of a replica".into());
        }
        // A replica may have a Unix socket only.
        let wrong = [(peer, false), (client, true)].into_iter().find(|(one, is_optional)| {
            let is_missing = *is_optional && one.is_empty();
            !is_missing && !is_address(one)
        });
        if let Some((address, _)) = wrong {
            return Some(format!("\"{}\" is no address: use HOST:PORT", address.escape_default()));
        }
        let known = [self.directory.find(*replica), self.directory.written_of(*replica)];
        let mut known = known.into_iter().flatten().map(|addresses| &addresses.peer).peekable();
        let at = known.peek().map(|at| (*at).clone())?;
        let is_member = all_members(self.members()).contains(replica);
        (is_member && known.all(|at| at != peer)).then(|| {
            format!("replica {replica} is a member already, at {at}: it tells the others itself when it moves")
        })
    }

    /// Does a request that only the leader can do. `None`: the answer comes later.
    fn ask_leader(&mut self, key: u64, question: AdminRequest) -> store::Result<Option<AdminResponse>> {
        if let Some(why) = self.joining_objection(&question) {
            return Ok(Some(failed(why)));
        }
        let members = self.members().clone();
        let (is_member, is_learner) =
            (|id: &u64| all_members(&members).contains(id), |id: &u64| members.learners.contains(id));
        let unknown = |id: u64| Ok(Some(failed(format!("there is no member {id}; `perdura-kv status` shows them"))));
        let changes = match question {
            AdminRequest::Join { replica, .. } if is_member(&replica) => return Ok(Some(AdminResponse::Done)),
            AdminRequest::Join { replica, peer, client } => match self.replaced(&peer) {
                Err(answer) => return Ok(Some(answer)),
                Ok(old) => {
                    let addresses = Addresses { peer, client };
                    if let Some(answer) = self.write_address(replica, &addresses)? {
                        return Ok(Some(answer));
                    }
                    let old = old.into_iter().map(|id| (ConfChangeType::RemoveNode, id));
                    old.chain([(ConfChangeType::AddLearnerNode, replica)]).collect()
                }
            },
            AdminRequest::Remove { replica } if !is_member(&replica) => return unknown(replica),
            AdminRequest::Remove { replica } if members.voters == [replica] => {
                return Ok(Some(failed("it is the only voter: without it there is no cluster")));
            }
            AdminRequest::Remove { replica } if self.is_needed(&members, replica) => {
                return Ok(Some(AdminResponse::Busy {
                    why: format!(
                        "without replica {replica} those that answer are no quorum of the voters: bring others back, or remove those that are lost first"
                    ),
                }));
            }
            // Another leads first: so clients wait for a moment and not for an election. It is
            // asked then.
            AdminRequest::Remove { replica } if replica == self.id => return self.hand_over_to_any(),
            AdminRequest::Remove { replica } => vec![(ConfChangeType::RemoveNode, replica)],
            AdminRequest::Promote { replica } if !is_member(&replica) => return unknown(replica),
            AdminRequest::Promote { replica } if !is_learner(&replica) => return Ok(Some(AdminResponse::Done)),
            AdminRequest::Promote { replica } if !self.node.is_in_sync(replica) => {
                let others = self.node.followers();
                if !others.iter().any(|other| other.id == replica && other.matched > 0) {
                    return Ok(Some(failed(format!(
                        "replica {replica} has never answered, and only a learner that is in sync with the leader can be promoted: run it first"
                    ))));
                }
                return Ok(Some(AdminResponse::Busy {
                    why: format!(
                        "replica {replica} is not in sync with the leader, and only a learner that is can be promoted: run it, and wait until it has caught up"
                    ),
                }));
            }
            AdminRequest::Promote { replica } => vec![(ConfChangeType::AddNode, replica)],
            AdminRequest::Transfer { replica } => return self.hand_over(key, replica),
            AdminRequest::Status | AdminRequest::Backup => return Ok(None),
        };
        let ticket = self.ticket();
        match self.node.change_members(ticket, &change_of(&changes))? {
            Err(not_now) => Ok(Some(self.not_now(not_now))),
            Ok(()) => {
                info!(self.log, "members change"; "change" => format!("{changes:?}"));
                self.asked.insert(ticket, key);
                Ok(None)
            }
        }
    }

    /// Whether the cluster loses its quorum with a voter: those that are left and answer are none
    /// of the rest. One whose process has just ended counts as active for a while, but is not
    /// connected.
    fn is_needed(&self, members: &ConfState, replica: u64) -> bool {
        let left: Vec<u64> = members.voters.iter().copied().filter(|id| *id != replica).collect();
        let is_up = |id: &&u64| **id == self.id || self.links.get(*id).is_some_and(Link::is_up);
        let up: Vec<u64> = left.iter().filter(is_up).copied().collect();
        members.voters.contains(&replica) && self.node.active_of(&up) <= left.len() / 2
    }

    /// The members that a new one at an address replaces. Error: one is alive, or may be: it was
    /// heard of late, but is not connected, as after a crash. Who asks again then is answered
    /// within two election timeouts.
    fn replaced(&self, peer: &str) -> Result<Vec<u64>, AdminResponse> {
        let members = all_members(self.members());
        let old: Vec<u64> = self.directory.at_peer(peer).into_iter().filter(|id| members.contains(id)).collect();
        let is_active =
            |id: &u64| *id == self.id || self.node.followers().iter().any(|other| other.id == *id && other.is_active);
        match old.iter().find(|id| is_active(id)) {
            Some(id) => {
                let is_it = |kind: &Kind| matches!(kind, Kind::Peer(other, _) if other == id);
                let is_connected = *id == self.id || self.inbound.values().any(|connection| is_it(&connection.kind));
                let why =
                    format!("{peer} is the address of replica {id}, which is alive: use another, or remove it first");
                Err(if is_connected { failed(why) } else { AdminResponse::Busy { why } })
            }
            None => Ok(old),
        }
    }

    /// Writes down where a replica is reached. An answer if that cannot be.
    fn write_address(&mut self, replica: u64, addresses: &Addresses) -> store::Result<Option<AdminResponse>> {
        let ticket = self.ticket();
        let bytes = peer_directory::to_bytes(addresses);
        let written = self.node.evaluate(ticket, |draft| {
            draft.put_system(&key::member(replica), Some(bytes));
            Ok::<_, ()>(())
        })?;
        let members = all_members(self.members());
        self.directory.hear(replica, addresses.clone(), |id| id == self.id || members.contains(&id));
        Ok(written.err().map(|not_now| self.not_now(not_now)))
    }

    fn hand_over(&mut self, key: u64, to: u64) -> store::Result<Option<AdminResponse>> {
        if !self.members().voters.contains(&to) {
            return Ok(Some(failed(format!("replica {to} is no voter; `perdura-kv status` shows them"))));
        }
        if to == self.id {
            return Ok(Some(AdminResponse::Done));
        }
        self.node.transfer(to)?;
        let until_ms = self.clock.now_ms() + 2 * self.config.raft.election_ms;
        self.handovers.push(Handover { connection: key, to, until_ms });
        Ok(None)
    }

    /// Hands leadership over, and has the operator's command ask the next leader.
    fn hand_over_to_any(&mut self) -> store::Result<Option<AdminResponse>> {
        let Some(transfer_target) = self.transfer_target() else {
            return Ok(Some(AdminResponse::Busy { why: "no other voter answers that could lead".into() }));
        };
        self.node.transfer(transfer_target)?;
        Ok(Some(AdminResponse::Busy { why: format!("leadership is handed over to replica {transfer_target} first") }))
    }

    /// Best target of a leadership transfer: of the other voters that answer, the one that has most
    /// of the log.
    pub fn transfer_target(&self) -> Option<u64> {
        let voters = &self.members().voters;
        let others = self.node.followers().into_iter().filter(|one| one.is_active && voters.contains(&one.id));
        others.max_by_key(|one| one.matched).map(|one| one.id)
    }

    /// Tells those who wait for leadership to be handed over.
    pub fn look_at_handovers(&mut self) {
        let (leader, now_ms) = (self.node.status().leader, self.clock.now_ms());
        for Handover { connection, to, until_ms } in std::mem::take(&mut self.handovers) {
            if leader == to {
                self.answer(connection, &AdminResponse::Done);
            } else if now_ms >= until_ms {
                self.answer(
                    connection,
                    &AdminResponse::Busy {
                        why: format!("replica {to} has not taken leadership: it may lag or be down"),
                    },
                );
            } else {
                self.handovers.push(Handover { connection, to, until_ms });
            }
        }
    }

    /// A ticket of the server's own is done.
    pub fn asked_done(&mut self, ticket: u64, outcome: Outcome) {
        let Some(key) = self.asked.remove(&ticket) else { return };
        let answer = match outcome {
            Outcome::Applied => AdminResponse::Done,
            // Only a backup has asked what it may read.
            Outcome::Readable => match self.begin_backup(key) {
                Some(answer) => answer,
                None => return self.readable_inbound.push_back(key),
            },
            Outcome::Never | Outcome::Unavailable => AdminResponse::Busy { why: "leadership has changed".into() },
            Outcome::Unknown => failed("it is not known whether it was done; `perdura-kv status` shows it"),
        };
        self.answer(key, &answer);
    }

    /// Begins a backup once this replica has applied all that was acknowledged before: one that
    /// lags must not leave it out.
    fn ask_for_backup(&mut self, key: u64) -> store::Result<Option<AdminResponse>> {
        let ticket = self.ticket();
        self.asked.insert(ticket, key);
        self.node.read(ticket)?;
        Ok(None)
    }

    /// Begins a backup of what is applied.
    pub fn begin_backup(&mut self, key: u64) -> Option<AdminResponse> {
        let snapshot = match self.node.store().snapshot(self.config.raft.chunk_size.0 as usize) {
            Ok(snapshot) => snapshot,
            Err(error) => return Some(failed(format!("no snapshot can be taken now: {error}"))),
        };
        let (index, term) = (snapshot.metadata().index, snapshot.metadata().term);
        let format = if self.config.store.kind == StoreKind::Wal { "wal" } else { "map" }.to_owned();
        let cluster = format!("{:032x}", self.cluster);
        self.answer(key, &AdminResponse::Snapshot { index, term, format, cluster });
        if let Some(connection) = self.inbound.get_mut(&key) {
            connection.kind = Kind::Operator(Some((snapshot, 0)));
        }
        None
    }

    /// How much room the store has; none is known while it receives its data.
    pub fn room(&self) -> store::Room {
        let store = self.node.store();
        if store.is_partial() { store::Room::default() } else { store.room() }
    }

    /// How the replica stands.
    pub fn state(&self) -> State {
        let status = self.node.status();
        let lag = status.committed.saturating_sub(status.applied);
        let room = self.room();
        let serves = matches!(status.role, Role::Leader | Role::Follower | Role::Learner) && status.leader != 0;
        State {
            version: env!("CARGO_PKG_VERSION").into(),
            cluster: format!("{:032x}", self.cluster),
            replica: self.id,
            role: format!("{:?}", status.role).to_lowercase(),
            term: status.term,
            leader: status.leader,
            committed: status.committed,
            applied: status.applied,
            last: status.last,
            is_stalled: status.is_stalled,
            is_full: room.is_full(),
            store_size: room.total,
            store_free: room.free,
            is_ready: serves
                && !status.is_stalled
                && self.node.unread().is_none()
                && lag <= READY_LAG_MAX
                && self.clients.knows_users(),
            is_outdated: self.node.unread().is_some(),
            store: self.store_name().into(),
            uptime_s: self.clock.now_ms() / 1000,
            clients: self.clients.connections() as u64,
            clock_skew_ms: self.node.clock().skew_ms,
            clock_refusals: self.node.clock().refusals,
            members: self.members_shown(status.leader),
        }
    }

    fn members_shown(&self, leader: u64) -> Vec<Member> {
        let (members, followers) = (self.members(), self.node.followers());
        let member = |replica: u64| {
            let addresses = self.directory.find(replica).cloned().unwrap_or_default();
            let follower = followers.iter().find(|other| other.id == replica);
            let kind = if members.voters.contains(&replica) {
                "voter"
            } else if members.voters_outgoing.contains(&replica) && !members.learners_next.contains(&replica) {
                "leaving"
            } else {
                "learner"
            };
            Member {
                replica,
                kind: kind.into(),
                leads: replica == leader,
                peer: addresses.peer,
                client: addresses.client,
                matched: follower.map(|other| other.matched),
                is_active: follower.map(|other| other.is_active),
            }
        };
        all_members(members).into_iter().map(member).collect()
    }
}
