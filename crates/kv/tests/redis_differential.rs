//! Random commands to a replica and to a real redis-server: the same replies, byte for byte, in
//! both protocols.
//!
//! Runs where `redis-server` is installed (`make setup` does that), which is started on a Unix
//! socket of its own. `PERDURA_SOAK=N` multiplies the seeds, `PERDURA_SEED=N` runs one; a failure
//! prints its seed and the commands up to it.

use crate::support::commands;
use crate::support::seeds;

use crate::support::cluster::Cluster;
use crate::support::commands::Commands;
use crate::support::redis::Redis;
use perdura_kv::client::Settings;

/// Commands of a seed.
const COMMANDS: usize = 400;

fn shown(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn compare(seed: u64, redis: &mut Redis) -> Result<(), String> {
    let settings = Settings { is_cluster: false, ..Settings::default() };
    let mut cluster = Cluster::new(1, &settings);
    cluster.now_us = redis.now_us();
    let tokens = [cluster.open(1), cluster.open(1)];
    let mut commands = Commands::new(seed);
    let mut story = String::new();
    redis.begin();
    if seed % 2 == 1 {
        for (client, token) in tokens.into_iter().enumerate() {
            let hello = commands::frame(&[b"HELLO".to_vec(), b"3".to_vec()]);
            redis.ask(client, &hello);
            cluster.put(1, token, &hello);
            cluster.take(1, token);
        }
    }
    for _ in 0..COMMANDS {
        let (client, command) = commands.next();
        let request = commands::frame(&command);
        story
            .push_str(&format!("{client}: {}\n", command.iter().map(|word| shown(word)).collect::<Vec<_>>().join(" ")));
        let wanted = redis.ask(client, &request);
        cluster.now_us = redis.now_us();
        cluster.put(1, tokens[client], &request);
        cluster.settle();
        let found = cluster.take(1, tokens[client]);
        if commands::are_beyond(&command, &wanted, &found) {
            break;
        }
        if !commands::agree(&command, &wanted, &found) {
            let (wanted, found) = (shown(&wanted), shown(&found));
            return Err(format!("{story}redis {wanted}\nours  {found}"));
        }
    }
    Ok(())
}

#[test]
fn replies_are_those_of_redis() {
    let Some(mut redis) = Redis::start() else {
        println!("redis-server is not installed: nothing is compared");
        return;
    };
    let mut wrong = Vec::new();
    for seed in seeds::seeds(60) {
        if let Err(what) = compare(seed, &mut redis) {
            // One story is enough; of the others only how they end.
            let lines: Vec<&str> = what.lines().collect();
            let told = if wrong.is_empty() { what.clone() } else { lines[lines.len().saturating_sub(3)..].join("\n") };
            wrong.push(format!("seed {seed}:\n{told}"));
        }
    }
    assert!(wrong.is_empty(), "{}\nrun one alone with PERDURA_SEED=N", wrong.join("\n"));
}

/// Requests with a word too many, too few or too odd, of commands that take several forms.
#[rustfmt::skip]
const MISUSED: &[&str] = &[
    "acl genpass 8 8", "acl genpass 0", "acl genpass 4097", "acl genpass x", "acl cat string x", "acl cat nope", "acl log 1 2",
    "acl log x", "acl whoami x", "acl users x", "acl list x", "acl getuser a b", "acl dryrun default", "acl setuser", "acl deluser",
    "slowlog get 1 2", "slowlog get -2", "slowlog get x", "slowlog len x", "slowlog reset x", "latency latest x", "latency history",
    "latency history a b", "client id x", "client getname x", "client setname", "client setname a b", "client list x", "client list type",
    "client list type nope", "client list id", "client list id x", "client kill", "client kill id x", "client kill id 1 user",
    "client kill nope nope", "client reply", "client reply on off", "client reply x", "client no-evict", "client no-evict on x",
    "client no-evict x", "client info x", "client getredir x", "client trackinginfo x", "command count x", "command list x",
    "command list filterby x", "command list filterby x y", "command list filterby pattern a b", "command getkeys",
    "command getkeys nope", "command getkeys get", "command getkeys ping", "config get", "config set", "config set maxclients",
    "config set maxclients 1 port", "config resetstat x", "memory usage", "memory usage k x", "memory usage k samples",
    "memory usage k samples x", "memory usage k samples -1", "ping a b", "echo", "echo a b", "select", "select 0 1", "auth", "auth a b c",
    "hello x", "hello 3 x", "hello 3 auth a", "hello 3 setname", "reset x", "multi x", "exec x", "discard x", "unwatch x", "watch",
    "time x", "dbsize x", "flushall x", "flushall sync x", "flushall async sync", "flushdb async x", "randomkey x", "keys", "keys a b",
    "scan", "scan x", "scan 0 match", "scan 0 count", "scan 0 count 0", "scan 0 count -1", "scan 0 count x", "scan 0 type", "scan 0 x",
    "wait", "wait 0", "wait x 0", "wait 0 x", "wait 0 -1", "copy a b x", "copy a b db", "copy a b db x", "copy a b db 99", "copy a a",
    "rename a", "rename a a", "expire k", "expire k 1 nx xx", "expire k x nope", "persist a b", "ttl", "set k", "set k v x", "set k v ex",
    "set k v px 0", "setex k 0 v", "setex k x v", "psetex k -1 v", "getex k ex", "getex k persist ex 1", "getdel", "append k",
    "setrange k x v", "setrange k -1 v", "getrange k x 0", "mset k", "mset k v k", "msetnx k", "incr k x", "incrby k", "incrby k x",
    "incrbyfloat k x", "exists", "del", "touch", "type", "type a b",
];

/// Hazard: an argument that no form of a command has is passed over, and the client believes that
/// it counts.
#[test]
fn misused_commands_are_refused_as_by_redis() {
    let Some(mut redis) = Redis::start() else {
        println!("redis-server is not installed: nothing is compared");
        return;
    };
    redis.begin();
    let settings = Settings { is_cluster: false, ..Settings::default() };
    let mut cluster = Cluster::new(1, &settings);
    let token = cluster.open(1);
    let mut wrong = Vec::new();
    for line in MISUSED {
        let request = commands::frame(&line.split(' ').map(|word| word.as_bytes().to_vec()).collect::<Vec<_>>());
        let wanted = redis.ask(0, &request);
        cluster.put(1, token, &request);
        cluster.settle();
        let found = cluster.take(1, token);
        if wanted != found {
            wrong.push(format!("{line}\nredis {}\nours  {}", shown(&wanted), shown(&found)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
