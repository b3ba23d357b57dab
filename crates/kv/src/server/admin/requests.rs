//! Requests of operators, and those that wait for an outcome.

use std::collections::BTreeMap;

use raft::eraftpb::{ConfChangeType, ConfState};
use slog::info;

use super::protocol::{AdminRequest, AdminResponse};
use crate::client::Clients;
use crate::codec::{all_members, change_of};
use crate::config::{StoreKind, is_address};
use crate::node::{Node, Outcome, Rejection, Role};
use crate::server::peers::directory::PeerDirectory;
use crate::server::peers::handshake::{Addresses, Handshake, RESPONSE_BYTES_MAX};
use crate::server::peers::inbound::InboundConnections;
use crate::server::peers::links::Links;
use crate::server::runtime::Runtime;
use crate::server::status;
use crate::store;

/// Marks tickets that are the server's own.
const OWN: u64 = 1 << 63;

/// An operator's connection that waits for leadership to be handed over, to which replica, and
/// until when.
struct Handover {
    connection: u64,
    to: u64,
    until_ms: u64,
}

/// The requests that wait.
#[derive(Default)]
pub(crate) struct Admin {
    last_ticket: u64,
    /// Connections that wait for a ticket.
    waiting: BTreeMap<u64, u64>,
    handovers: Vec<Handover>,
}

/// Parts of the server that requests touch.
pub(crate) struct AdminContext<'a> {
    pub runtime: &'a Runtime,
    pub node: &'a mut Node,
    pub clients: &'a Clients,
    pub directory: &'a mut PeerDirectory,
    pub links: &'a Links,
    pub inbound: &'a mut InboundConnections,
}

fn failed(why: impl Into<String>) -> AdminResponse {
    AdminResponse::Failed { why: why.into() }
}

/// Response to the promotion of a learner that has not caught up.
fn out_of_sync(node: &Node, replica: u64) -> AdminResponse {
    let others = node.followers();
    if others.iter().any(|other| other.id == replica && other.matched > 0) {
        busy(format!(
            "replica {replica} is not in sync with the leader, and only a learner that is can be promoted: run it, and wait until it has caught up"
        ))
    } else {
        failed(format!(
            "replica {replica} has never answered, and only a learner that is in sync with the leader can be promoted: run it first"
        ))
    }
}

fn busy(why: impl Into<String>) -> AdminResponse {
    AdminResponse::Busy { why: why.into() }
}

impl AdminContext<'_> {
    fn respond(&mut self, key: u64, response: &AdminResponse) {
        let bytes = serde_json::to_vec(response).unwrap_or_default();
        let fits = bytes.len() < RESPONSE_BYTES_MAX;
        let bytes = if fits { bytes } else { br#"{"failed":{"why":"the answer is too long"}}"#.to_vec() };
        self.inbound.say(key, &Handshake::AdminResponse(bytes.into()));
    }

    fn elsewhere(&self) -> AdminResponse {
        let leader = self.node.status().leader;
        let peer = self.directory.find(leader).map(|addresses| addresses.peer.clone()).unwrap_or_default();
        AdminResponse::Elsewhere { leader, peer }
    }

    fn rejected(&self, rejection: Rejection) -> AdminResponse {
        match rejection {
            Rejection::NotLeader { .. } => self.elsewhere(),
            Rejection::Busy => busy("another change of members is under way"),
            Rejection::MakesRoom => busy("the leader's store makes room"),
            Rejection::TooLarge => failed("a cluster has at most 31 members"),
            Rejection::Full => failed("the leader's store has no room: delete keys"),
        }
    }

    /// Reason for which a replica cannot be a member with these addresses. What others could not be
    /// told would not be read back either.
    fn joining_objection(&self, request: &AdminRequest) -> Option<String> {
        let AdminRequest::Join { replica, peer, client } = request else { return None };
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
        let known = [self.directory.find(*replica), self.directory.persisted(*replica)];
        let mut known = known.into_iter().flatten().map(|addresses| &addresses.peer).peekable();
        let at = known.peek().map(|at| (*at).clone())?;
        let is_member = all_members(self.node.members()).contains(replica);
        (is_member && known.all(|at| at != peer)).then(|| {
            format!("replica {replica} is a member already, at {at}: it tells the others itself when it moves")
        })
    }

    /// Whether the cluster loses its quorum with a voter: those that are left and answer are none
    /// of the rest. One whose process has just ended counts as active for a while, but is not
    /// connected.
    fn is_needed(&self, members: &ConfState, replica: u64) -> bool {
        let left: Vec<u64> = members.voters.iter().copied().filter(|id| *id != replica).collect();
        let is_up = |id: &&u64| **id == self.node.id() || self.links.is_up(**id);
        let up: Vec<u64> = left.iter().filter(is_up).copied().collect();
        members.voters.contains(&replica) && self.node.active_of(&up) <= left.len() / 2
    }

    /// The members that a new one at an address replaces. Error: one is alive, or may be: it was
    /// heard of late, but is not connected, as after a crash. A request that is repeated then is
    /// done within two election timeouts.
    fn replaced(&self, peer: &str) -> Result<Vec<u64>, AdminResponse> {
        let (members, own) = (all_members(self.node.members()), self.node.id());
        let old: Vec<u64> = self.directory.at_peer(peer).into_iter().filter(|id| members.contains(id)).collect();
        let is_active =
            |id: &u64| *id == own || self.node.followers().iter().any(|other| other.id == *id && other.is_active);
        let Some(id) = old.iter().find(|id| is_active(id)) else { return Ok(old) };
        let is_connected = *id == own || self.inbound.replicas().any(|other| other == *id);
        let why = format!("{peer} is the address of replica {id}, which is alive: use another, or remove it first");
        Err(if is_connected { failed(why) } else { busy(why) })
    }

    /// Hands leadership over, and has the operator's command ask the next leader.
    fn hand_over_to_any(&mut self) -> store::Result<AdminResponse> {
        let Some(target) = self.node.transfer_target() else {
            return Ok(busy("no other voter answers that could lead"));
        };
        self.node.transfer(target)?;
        Ok(busy(format!("leadership is handed over to replica {target} first")))
    }

    /// Begins a backup of what is applied.
    pub(crate) fn begin_backup(&mut self, key: u64) -> Result<(), AdminResponse> {
        let config = self.runtime.config();
        let snapshot = self.node.store().snapshot(config.raft.chunk_size.0 as usize);
        let snapshot = snapshot.map_err(|error| failed(format!("no snapshot can be taken now: {error}")))?;
        let (index, term) = (snapshot.metadata().index, snapshot.metadata().term);
        let format = if config.store.kind == StoreKind::Wal { "wal" } else { "map" }.to_owned();
        let cluster = format!("{:032x}", self.node.store().persistent_state().cluster);
        self.respond(key, &AdminResponse::Snapshot { index, term, format, cluster });
        self.inbound.send_backup(key, snapshot);
        Ok(())
    }
}

impl Admin {
    /// A ticket of the server's own.
    pub(crate) fn ticket(&mut self) -> u64 {
        self.last_ticket += 1;
        OWN | self.last_ticket
    }

    /// Whether a ticket is the server's own.
    pub(crate) fn is_own(ticket: u64) -> bool {
        ticket & OWN != 0
    }

    /// Does a request of a connection. It is answered at once, or when it is done.
    pub(crate) fn request(&mut self, key: u64, request: &[u8], mut context: AdminContext<'_>) -> store::Result<()> {
        let response = match serde_json::from_slice(request) {
            Err(error) => Some(failed(format!("a question that this version does not know: {error}"))),
            Ok(AdminRequest::Status) => {
                let AdminContext { runtime, node, clients, directory, .. } = &context;
                Some(AdminResponse::Status(Box::new(status::state(runtime, node, clients, directory))))
            }
            // It begins once this replica has applied all that was acknowledged before: one that
            // lags must not leave it out.
            Ok(AdminRequest::Backup) => {
                let ticket = self.ticket();
                self.waiting.insert(ticket, key);
                context.node.read(ticket)?;
                None
            }
            Ok(request) if context.node.status().role == Role::Leader => self.lead(key, request, &mut context)?,
            Ok(_) => Some(context.elsewhere()),
        };
        if let Some(response) = response {
            context.respond(key, &response);
        }
        Ok(())
    }

    /// Does a request that only the leader can do. `None`: the response comes later.
    fn lead(
        &mut self,
        key: u64,
        request: AdminRequest,
        context: &mut AdminContext<'_>,
    ) -> store::Result<Option<AdminResponse>> {
        if let Some(why) = context.joining_objection(&request) {
            return Ok(Some(failed(why)));
        }
        let members = context.node.members().clone();
        let is_member = |id: &u64| all_members(&members).contains(id);
        let unknown = |id: u64| Ok(Some(failed(format!("there is no member {id}; `perdura-kv status` shows them"))));
        let changes = match request {
            AdminRequest::Join { replica, .. } if is_member(&replica) => return Ok(Some(AdminResponse::Done)),
            AdminRequest::Join { replica, peer, client } => match context.replaced(&peer) {
                Err(response) => return Ok(Some(response)),
                Ok(old) => {
                    let (addresses, ticket) = (Addresses { peer, client }, self.ticket());
                    if let Err(rejection) = context.directory.persist(replica, addresses, ticket, context.node)? {
                        return Ok(Some(context.rejected(rejection)));
                    }
                    let old = old.into_iter().map(|id| (ConfChangeType::RemoveNode, id));
                    old.chain([(ConfChangeType::AddLearnerNode, replica)]).collect()
                }
            },
            AdminRequest::Remove { replica } if !is_member(&replica) => return unknown(replica),
            AdminRequest::Remove { replica } if members.voters == [replica] => {
                return Ok(Some(failed("it is the only voter: without it there is no cluster")));
            }
            AdminRequest::Remove { replica } if context.is_needed(&members, replica) => {
                return Ok(Some(busy(format!(
                    "without replica {replica} those that answer are no quorum of the voters: bring others back, or remove those that are lost first"
                ))));
            }
            // Another leads first: so clients wait for a moment and not for an election. It is
            // asked then.
            AdminRequest::Remove { replica } if replica == context.node.id() => {
                return context.hand_over_to_any().map(Some);
            }
            AdminRequest::Remove { replica } => vec![(ConfChangeType::RemoveNode, replica)],
            AdminRequest::Promote { replica } if !is_member(&replica) => return unknown(replica),
            AdminRequest::Promote { replica } if !members.learners.contains(&replica) => {
                return Ok(Some(AdminResponse::Done));
            }
            AdminRequest::Promote { replica } if !context.node.is_in_sync(replica) => {
                return Ok(Some(out_of_sync(context.node, replica)));
            }
            AdminRequest::Promote { replica } => vec![(ConfChangeType::AddNode, replica)],
            AdminRequest::Transfer { replica } => return self.hand_over(key, replica, context),
            AdminRequest::Status | AdminRequest::Backup => return Ok(None),
        };
        let ticket = self.ticket();
        if let Err(rejection) = context.node.change_members(ticket, &change_of(&changes))? {
            return Ok(Some(context.rejected(rejection)));
        }
        info!(context.runtime.log(), "members change"; "change" => format!("{changes:?}"));
        self.waiting.insert(ticket, key);
        Ok(None)
    }

    fn hand_over(&mut self, key: u64, to: u64, context: &mut AdminContext<'_>) -> store::Result<Option<AdminResponse>> {
        if !context.node.members().voters.contains(&to) {
            return Ok(Some(failed(format!("replica {to} is no voter; `perdura-kv status` shows them"))));
        }
        if to == context.node.id() {
            return Ok(Some(AdminResponse::Done));
        }
        context.node.transfer(to)?;
        let until_ms = context.runtime.now_ms() + 2 * context.runtime.config().raft.election_ms;
        self.handovers.push(Handover { connection: key, to, until_ms });
        Ok(None)
    }

    /// Answers requests to hand leadership over that are done, or have failed.
    pub(crate) fn tick(&mut self, mut context: AdminContext<'_>) {
        let (leader, now_ms) = (context.node.status().leader, context.runtime.now_ms());
        self.handovers.retain(|Handover { connection, to, until_ms }| {
            if leader == *to {
                context.respond(*connection, &AdminResponse::Done);
            } else if now_ms >= *until_ms {
                let why = format!("replica {to} has not taken leadership: it may lag or be down");
                context.respond(*connection, &busy(why));
            }
            leader != *to && now_ms < *until_ms
        });
    }

    /// A ticket of the server's own is done.
    pub(crate) fn done(&mut self, ticket: u64, outcome: Outcome, mut context: AdminContext<'_>) {
        let Some(key) = self.waiting.remove(&ticket) else { return };
        let response = match outcome {
            Outcome::Applied => AdminResponse::Done,
            // Only a backup has asked what it may read.
            Outcome::Readable => match context.begin_backup(key) {
                Err(response) => response,
                Ok(()) => return context.inbound.read_later(key),
            },
            Outcome::Never | Outcome::Unavailable => busy("leadership has changed"),
            Outcome::Unknown => failed("it is not known whether it was done; `perdura-kv status` shows it"),
        };
        context.respond(key, &response);
    }

    /// Number of requests that wait for a ticket.
    #[cfg(test)]
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.len()
    }
}
