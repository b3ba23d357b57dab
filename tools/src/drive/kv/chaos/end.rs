//! Checks when all faults are over.

use std::collections::BTreeSet;

use anyhow::{Result, bail, ensure};

use super::clients::Load;
use super::history::{Kind, Operation};
use crate::drive::kv::cluster::{Cluster, Replica, wait_for};
use crate::drive::kv::resp::Reply;

/// The number of the client that reads at the end.
const READER: usize = 99;

/// Reads each key once more, and adds that to the history.
pub fn read_again(cluster: &Cluster, load: &Load, history: &mut Vec<Operation>) -> Result<()> {
    let keys: BTreeSet<String> = history.iter().map(|done| done.key.clone()).collect();
    let mut client = cluster.replicas[cluster.leader()?].client()?;
    for key in keys {
        let call_us = load.now_us();
        let answer = match client.call(&["GET", &key])? {
            Reply::Bytes(bytes) => Some(String::from_utf8(bytes)?),
            Reply::None => None,
            other => bail!("GET {key}: {other:?}"),
        };
        let outcome = Some((load.now_us(), answer));
        let (kind, argument) = (Kind::Get, String::new());
        history.push(Operation { client: READER, key, kind, argument, old: None, call_us, outcome });
    }
    Ok(())
}

/// A pair of PERDURA.RANGE.
fn pair(reply: Reply) -> Result<(Vec<u8>, Vec<u8>)> {
    match reply {
        Reply::Many(parts) => match <[Reply; 2]>::try_from(parts) {
            Ok([Reply::Bytes(key), Reply::Bytes(value)]) => Ok((key, value)),
            other => bail!("PERDURA.RANGE: {other:?}"),
        },
        other => bail!("PERDURA.RANGE: {other:?}"),
    }
}

/// All keys and values as a replica has applied them.
fn content(replica: &Replica) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let mut client = replica.client()?;
    ensure!(client.call(&["READONLY"])? == Reply::Text("OK".into()), "READONLY was refused");
    let (mut all, mut from) = (Vec::new(), None::<String>);
    loop {
        let mut words = vec!["PERDURA.RANGE", "COUNT", "1000", "WITHVALUES"];
        words.extend(from.iter().flat_map(|key| ["AFTER", key]));
        let Reply::Many(page) = client.call(&words)? else { bail!("PERDURA.RANGE: no list") };
        if page.is_empty() {
            return Ok(all);
        }
        page.into_iter().try_for_each(|reply| pair(reply).map(|pair| all.push(pair)))?;
        from = all.last().map(|(key, _)| String::from_utf8_lossy(key).into_owned());
    }
}

/// Fails unless all replicas come to the same. Returns how many keys there are.
pub fn compare(cluster: &Cluster) -> Result<usize> {
    let running: Vec<&Replica> = cluster.replicas.iter().filter(|replica| replica.runs()).collect();
    wait_for("all replicas to have all", || {
        let states = running.iter().map(|replica| replica.state()).collect::<Option<Vec<_>>>()?;
        let last = states.iter().filter_map(|state| state["last"].as_u64()).max();
        states.iter().all(|state| state["applied"].as_u64() == last).then_some(())
    })?;
    let first = content(running[0])?;
    for replica in &running[1..] {
        let other = content(replica)?;
        let differs = first.iter().zip(&other).find(|(one, other)| one != other);
        ensure!(
            other == first,
            "VIOLATION: {} has other keys or values than {}: {} and {} keys: {differs:?}",
            replica.place().display(),
            running[0].place().display(),
            other.len(),
            first.len()
        );
    }
    ensure!(running.len() > 2 && !first.is_empty(), "nothing was compared");
    Ok(first.len())
}

/// Ends all replicas, and has the data of each checked.
pub fn check(cluster: &mut Cluster) -> Result<()> {
    for replica in cluster.replicas.iter_mut().filter(|replica| replica.runs()) {
        replica.stop()?;
        replica.command(&["check"])?;
        let log = std::fs::read_to_string(replica.place().join("log"))?;
        ensure!(!log.contains("panicked"), "{}: its log tells of a panic", replica.place().display());
    }
    Ok(())
}
