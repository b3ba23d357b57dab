//! redis-rs, unchanged, on a cluster of perdura-kv: a plain client of the leader, and a client in
//! cluster mode.
//!
//! Arguments: the leader's address, then those of all replicas.

use redis::cluster::ClusterClient;
use redis::{Client, Commands, ConnectionLike, RedisResult, cmd, pipe};

fn commands(client: &mut (impl Commands + ConnectionLike), name: &str) -> RedisResult<()> {
    let key = |rest: &str| format!("{{rs:{name}}}:{rest}");
    client.set::<_, _, ()>(key("a"), 1)?;
    assert_eq!(client.incr::<_, _, i64>(key("a"), 1)?, 2);
    assert_eq!(client.get::<_, String>(key("a"))?, "2");
    assert_eq!(client.get::<_, Option<String>>(key("none"))?, None);
    assert!(!client.set_nx::<_, _, bool>(key("a"), "x")?);
    client.set_ex::<_, _, ()>(key("t"), "1", 60)?;
    assert!((55..=60).contains(&client.ttl::<_, i64>(key("t"))?));
    client.mset::<_, _, ()>(&[(key("m1"), "1"), (key("m2"), "2")])?;
    let found: Vec<Option<String>> = client.mget(&[key("m1"), key("m2"), key("none")])?;
    assert_eq!(found, [Some("1".to_owned()), Some("2".to_owned()), None]);
    assert_eq!(client.del::<_, i64>(&[key("a"), key("t")])?, 2);
    let wrong = client.incr::<_, _, i64>(key("m1"), "x").expect_err("no number");
    assert!(wrong.to_string().contains("not an integer"), "{wrong}");
    Ok(())
}

fn only_plain(client: &mut redis::Connection, name: &str) -> RedisResult<()> {
    let key = |rest: &str| format!("{{rs:{name}}}:{rest}");
    let mut pipeline = pipe();
    for _ in 0..100 {
        pipeline.incr(key("n"), 1);
    }
    let counts: Vec<i64> = pipeline.query(client)?;
    assert_eq!(counts, (1..=100).collect::<Vec<_>>());
    let (sum,): (i64,) = pipe().atomic().set(key("x"), 1).ignore().incr(key("x"), 41).query(client)?;
    assert_eq!(sum, 42);
    let keys: Vec<String> = client.scan_match::<_, String>("{rs:*")?.collect();
    assert!(keys.len() >= 4, "{keys:?}");
    let (version, value): (i64, Option<String>) = cmd("PERDURA.GET").arg(key("none")).query(client)?;
    assert_eq!((version, value), (0, None));
    for wanted in [1, 2] {
        let add = redis::transaction(client, &[key("w")], |client, pipe| {
            let old: Option<i64> = client.get(key("w"))?;
            pipe.set(key("w"), old.unwrap_or(0) + 1).ignore().get(key("w")).query(client)
        });
        let (new,): (i64,) = add?;
        assert_eq!(new, wanted);
    }
    Ok(())
}

fn main() -> RedisResult<()> {
    let addresses: Vec<String> = std::env::args().skip(1).collect();
    let (leader, all) = addresses.split_first().expect("the leader's address, then those of all");
    for protocol in ["resp2", "resp3"] {
        let url = |address: &String| format!("redis://{address}/?protocol={protocol}");
        let mut plain = Client::open(url(leader))?.get_connection()?;
        commands(&mut plain, &format!("plain:{protocol}"))?;
        only_plain(&mut plain, protocol)?;
        let mut cluster = ClusterClient::new(all.iter().map(url))?.get_connection()?;
        commands(&mut cluster, &format!("cluster:{protocol}"))?;
    }
    println!("redis-rs: ok");
    Ok(())
}
