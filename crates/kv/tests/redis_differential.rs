//! Random commands to a replica and to a real redis-server: the same replies, byte for byte, in both protocols.
//!
//! Runs where `redis-server` is installed (`make setup` does that), which is started on a Unix socket of its own.
//! `PERDURA_SOAK=N` multiplies the seeds, `PERDURA_SEED=N` runs one; a failure prints its seed and the commands up to it.

#[path = "support/cluster.rs"]
mod cluster;
#[path = "support/commands.rs"]
mod commands;
#[path = "support/redis.rs"]
mod redis;
#[path = "support/seeds.rs"]
mod seeds;

use cluster::Cluster;
use commands::Commands;
use perdura_kv::client::Settings;
use redis::Redis;

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
