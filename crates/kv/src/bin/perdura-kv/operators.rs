//! Asks running replicas, and has their leader change things.

use perdura_kv::config::Config;
use perdura_kv::server::admin::{AdminRequest, AdminResponse, State};

use super::backup_file::{Head, NewBackup};
use super::line::{Line, PAUSE, TRIES, ask_leader};
use super::outcome::{Failure, Outcome};

fn address(config: &Config, to: Option<String>) -> String {
    to.unwrap_or_else(|| config.peer_address())
}

/// Prints how a replica stands. Fails if it cannot serve.
pub(crate) fn status(config: &Config, to: Option<String>, json: bool) -> Outcome<()> {
    let address = address(config, to);
    let state = match Line::open(config, &address)?.ask(&AdminRequest::Status)? {
        AdminResponse::Status(state) => state,
        _ => return Err(Failure::refused(format!("{address}: an answer to another question"))),
    };
    if json {
        let text = serde_json::to_string_pretty(&state).map_err(|error| Failure::refused(error.to_string()))?;
        println!("{text}");
    } else {
        print(&state);
    }
    if state.is_ready { Ok(()) } else { Err(Failure::damaged("the replica cannot serve clients now")) }
}

fn print(state: &State) {
    println!("replica {} of cluster {}, version {}", state.replica, state.cluster, state.version);
    println!("  {} in term {}, leader {}", state.role, state.term, state.leader);
    println!("  committed {}, applied {}, last {}", state.committed, state.applied, state.last);
    let room = if state.is_stalled { ", without room" } else { "" };
    println!("  store {}{room}, {} clients, up for {} s", state.store, state.clients, state.uptime_s);
    println!("  {:>16} {:<8} {:>12} {:<7} {:<22} clients", "member", "role", "has up to", "state", "replicas");
    for member in &state.members {
        let role = if member.leads { "leader" } else { &member.kind };
        let matched = if member.replica == state.replica { Some(state.last) } else { member.matched };
        let matched = matched.map_or_else(|| "-".to_owned(), |index| index.to_string());
        let is_active = if member.replica == state.replica { Some(true) } else { member.is_active };
        let active = is_active.map_or("-", |is_active| if is_active { "answers" } else { "silent" });
        println!("  {:>16} {role:<8} {matched:>12} {active:<7} {:<22} {}", member.replica, member.peer, member.client);
    }
}

fn id(word: &str) -> Outcome<u64> {
    let id = word.parse().ok().filter(|id| *id > 0);
    id.ok_or_else(|| Failure::refused(format!("{word} is no id of a replica; `perdura-kv status` shows them")))
}

/// Has the leader change members, or hand over.
pub(crate) fn change(config: &Config, to: Option<String>, name: &str, words: &[String]) -> Outcome<()> {
    let replica = id(&words[0])?;
    let question = match name {
        "add" => AdminRequest::Join { replica, peer: words[1].clone(), client: words[2].clone() },
        "remove" => AdminRequest::Remove { replica },
        "promote" => AdminRequest::Promote { replica },
        _ => AdminRequest::Transfer { replica },
    };
    ask_leader(config, &address(config, to), &question)?;
    let done = match name {
        "add" => "is a member",
        "remove" => "is no member any more",
        "promote" => "is a voter",
        _ => "leads",
    };
    println!("replica {replica} {done}");
    Ok(())
}

/// Asks for a backup until the replica has applied what was acknowledged before.
fn begin_backup(line: &mut Line, address: &str) -> Outcome<Head> {
    let mut why = String::new();
    for _ in 0..TRIES {
        match line.ask(&AdminRequest::Backup)? {
            AdminResponse::Snapshot { index, term, format, cluster } => {
                return Ok(Head { index, term, format, cluster });
            }
            AdminResponse::Busy { why: now } => why = now,
            AdminResponse::Failed { why } => return Err(Failure::refused(format!("{address}: {why}"))),
            _ => return Err(Failure::refused(format!("{address}: an answer to another question"))),
        }
        std::thread::sleep(PAUSE);
    }
    Err(Failure::refused(format!("{address}: {why}; try again later")))
}

/// Copies what a replica has applied into a file.
pub(crate) fn backup(config: &Config, to: Option<String>, name: &str) -> Outcome<()> {
    let address = address(config, to);
    let mut line = Line::open(config, &address)?;
    let head = begin_backup(&mut line, &address)?;
    let mut file = NewBackup::create(name, &head)?;
    let mut bytes = 0;
    loop {
        let chunk = line.answer_bytes()?;
        file.put(&chunk)?;
        bytes += chunk.len();
        if chunk.is_empty() {
            break;
        }
    }
    file.finish()?;
    println!("copied what replica {address} had applied up to index {} into {name}, {bytes} bytes", head.index);
    Ok(())
}
