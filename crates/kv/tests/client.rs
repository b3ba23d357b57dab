//! Replies to clients, on whole replicas: order, transactions, users, cluster mode, waits, and a
//! leader that is lost.

use crate::support::cluster::Cluster;
use crate::support::lines::{are, leader, says};
use perdura_kv::client::Settings;

/// Refusals are kept, the same ones counted; settings change while the server runs.
#[test]
fn refusals_are_logged_and_settings_change() {
    let (mut cluster, admin) = Cluster::one();
    let user = cluster.open(1);
    are(&mut cluster, 1, admin, &[("ACL SETUSER eve on >pw ~a:* +@read +multi +exec +set", "+OK"), ("ACL LOG", "*0")]);
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    let (command, key) = (
        "-NOPERM this user has no permissions to run the 'del' command",
        "-NOPERM this user has no permissions to access one of the keys used as arguments",
    );
    are(
        &mut cluster,
        1,
        user,
        &[
            ("AUTH eve no / AUTH eve no", &format!("{wrong} {wrong}")),
            ("AUTH eve pw / DEL a:1 / GET b", &format!("+OK {command} {key}")),
            ("MULTI / SET b 1", &format!("+OK {key}")),
        ],
    );
    let log = says(&mut cluster, 1, admin, "ACL LOG");
    assert!(log.starts_with("*4 *20 $5 count :1 $6 reason $3 key $7 context $5 multi $6 object $1 b"), "{log}");
    assert!(
        log.contains("count :2 $6 reason $4 auth $7 context $8 toplevel $6 object $4 AUTH $8 username $3 eve"),
        "{log}"
    );
    assert!(log.contains("reason $7 command $7 context $8 toplevel $6 object $3 del"), "{log}");
    assert!(says(&mut cluster, 1, admin, "ACL LOG 1").starts_with("*1 "));
    are(&mut cluster, 1, admin, &[("ACL LOG RESET / ACL LOG", "+OK *0")]);
    // As many as there may be, however many there were.
    for number in 0..300 {
        are(&mut cluster, 1, user, &[(&format!("GET b{number}"), key)]);
    }
    assert!(says(&mut cluster, 1, admin, "ACL LOG 1000").starts_with("*128 "));
    are(
        &mut cluster,
        1,
        admin,
        &[
            (
                "CONFIG SET clients.value_size_max 1kb / CONFIG GET clients.value_size_max",
                "+OK *2 $22 clients.value_size_max $4 1024",
            ),
            ("CONFIG SET maxclients 2 / CONFIG GET maxclients", "+OK *2 $10 maxclients $1 2"),
        ],
    );
    let now_us = cluster.now_us;
    assert!(cluster.at(1).clients.open(perdura_kv::client::Peer::default(), now_us).is_none());
    let refused = says(&mut cluster, 1, admin, "*3 / $3 / SET / $1 / a / $1025");
    assert!(refused.starts_with("-ERR Protocol error"), "{refused}");
}

/// Each look at the clock is three milliseconds after the one before.
fn slow_clock() -> u64 {
    static NOW_US: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    NOW_US.fetch_add(3000, std::sync::atomic::Ordering::Relaxed)
}

/// Operators see which commands take long, how often each is called, and what takes memory.
#[test]
fn slow_commands_and_memory_are_seen() {
    let settings = Settings { steady_us: slow_clock, ..Settings::default() };
    let mut cluster = Cluster::new(1, &settings);
    let token = cluster.open(1);
    are(
        &mut cluster,
        1,
        token,
        &[
            ("SET k 12345 / GET k / SLOWLOG LEN / LATENCY LATEST", "+OK $5 12345 :0 *0"),
            ("CONFIG SET slowlog-log-slower-than 2000 slowlog-max-len 3 latency-monitor-threshold 2", "+OK"),
            ("SLOWLOG RESET", "+OK"),
            ("SET k 1 / GET k / AUTH a b", "+OK $1 1 -WRONGPASS invalid username-password pair or user is disabled."),
            ("SLOWLOG LEN", ":3"),
            ("MEMORY USAGE k / MEMORY USAGE none / MEMORY USAGE k SAMPLES 5", ":98 $-1 :98"),
            ("MEMORY USAGE k SAMPLES", "-ERR syntax error"),
            ("MULTI / MEMORY USAGE k / EXEC", "+OK +QUEUED *1 :98"),
        ],
    );
    let slow = says(&mut cluster, 1, token, "SLOWLOG GET 1");
    assert!(slow.starts_with("*1 *6 :"), "{slow}");
    are(&mut cluster, 1, token, &[("CONFIG SET slowlog-log-slower-than 1000000", "+OK"), ("SLOWLOG RESET", "+OK")]);
    are(
        &mut cluster,
        1,
        token,
        &[
            ("CONFIG SET slowlog-log-slower-than 0", "+OK"),
            ("AUTH bob secret / SLOWLOG RESET", "-WRONGPASS invalid username-password pair or user is disabled. +OK"),
        ],
    );
    are(
        &mut cluster,
        1,
        token,
        &[("AUTH bob secret", "-WRONGPASS invalid username-password pair or user is disabled.")],
    );
    let slow = says(&mut cluster, 1, token, "SLOWLOG GET -1");
    assert!(slow.contains("*3 $4 AUTH $10 (redacted) $10 (redacted)") && !slow.contains("secret"), "{slow}");
    let latest = says(&mut cluster, 1, token, "LATENCY LATEST");
    assert!(latest.contains("$12 fast-command") && latest.contains(":3 :3"), "{latest}");
    assert!(says(&mut cluster, 1, token, "LATENCY HISTORY fast-command").starts_with('*'));
    let histogram = says(&mut cluster, 1, token, "LATENCY HISTOGRAM get");
    assert_eq!(histogram, "*2 $3 get *4 $5 calls :2 $14 histogram_usec *2 :4096 :2");
    let reset = says(&mut cluster, 1, token, "CONFIG SET latency-monitor-threshold 0 / LATENCY RESET / LATENCY LATEST");
    assert!(reset.starts_with("+OK :") && reset.ends_with("*0"), "{reset}");
    let info = says(&mut cluster, 1, token, "INFO commandstats");
    assert!(
        info.contains("cmdstat_get:calls=2,usec=6000,usec_per_call=3000.00,rejected_calls=0,failed_calls=0"),
        "{info}"
    );
    assert!(!says(&mut cluster, 1, token, "INFO").contains("cmdstat_"));
    let info = says(&mut cluster, 1, token, "INFO memory cpu");
    for wanted in ["# Memory", "used_memory:", "store_free:", "# Cpu", "used_cpu_user:"] {
        assert!(info.contains(wanted), "{wanted}: {info}");
    }
    let info = says(&mut cluster, 1, token, "CONFIG RESETSTAT / INFO commandstats");
    assert!(!info.contains("cmdstat_get"), "{info}");
    // A transaction's memory is shown.
    let other = cluster.open(1);
    says(&mut cluster, 1, other, &format!("MULTI / SET k {}", "v".repeat(5000)));
    let list = says(&mut cluster, 1, token, "CLIENT LIST");
    let of = |name: &str| -> u64 {
        let line = list.split('\n').find(|line| line.contains("multi=1 ")).unwrap_or_else(|| panic!("{list}"));
        let field = line.split(' ').find_map(|field| field.strip_prefix(name)).expect("a field");
        field.parse().expect("a number")
    };
    assert!(of("multi-mem=") > 5000 && of("tot-mem=") > of("multi-mem="), "{list}");
}

/// Reads wait for ReadIndex, writes for their entries, errors for nothing: all the same the replies
/// come as the requests did, and each request sees those before it and none behind it.
#[test]
fn pipelined_requests_take_effect_in_their_order() {
    for count in [1, 3] {
        let mut cluster = Cluster::new(count, &Settings::default());
        let token = cluster.open(1);
        are(
            &mut cluster,
            1,
            token,
            &[
                (
                    "GET k / SET k 1 / GET k / NOPE / INCR k / GET k / PING / SET k x / GET k",
                    "$-1 +OK $1 1 -ERR unknown command 'NOPE', with args beginning with:  :2 $1 2 +PONG +OK $1 x",
                ),
                (
                    "GET k / GET k / DEL k / GET k / SET k 5 NX / SET k 6 NX / MGET k l",
                    "$1 x $1 x :1 $-1 +OK $-1 *2 $1 5 $-1",
                ),
                ("CLIENT REPLY OFF / SET k 7 / GET k / CLIENT REPLY ON / GET k", "+OK $1 7"),
                ("CLIENT REPLY SKIP / SET k 8 / GET k", "$1 8"),
                ("CLIENT REPLY SKIP / CLIENT REPLY SKIP / SET k 8 / GET k", "$1 8"),
                ("CLIENT REPLY OFF / CLIENT REPLY SKIP / GET k / CLIENT REPLY ON / GET k", "+OK $1 8"),
            ],
        );
    }
}

/// A client that sends without reading is not read from beyond the bounds, and is answered in full
/// all the same.
#[test]
fn a_client_that_does_not_read_is_held_up() {
    let settings = Settings { requests_max: 10, output_bytes_max: 1000, ..Settings::default() };
    let mut cluster = Cluster::new(1, &settings);
    let token = cluster.open(1);
    assert_eq!(says(&mut cluster, 1, token, &format!("SET k {}", "x".repeat(300))), "+OK");
    cluster.put(1, token, "GET k\r\n".repeat(100).as_bytes());
    cluster.put(1, token, "APPEND k y\r\n".repeat(50).as_bytes());
    assert!(!cluster.at(1).clients.wants_input(token));
    let (mut taken, mut rounds) = (Vec::new(), 0);
    loop {
        cluster.settle();
        let more = cluster.take(1, token);
        if more.is_empty() {
            break;
        }
        assert!(more.len() < 1000 + 10 * 400, "{} bytes at once", more.len());
        taken.extend(more);
        rounds += 1;
    }
    assert!(rounds > 10, "{rounds}");
    assert!(cluster.at(1).clients.wants_input(token));
    let text = String::from_utf8(taken).expect("a text");
    assert_eq!(text.matches("$300\r\n").count(), 100);
    assert!(text.ends_with(":350\r\n"));
}

/// Hazard: what a client may say before it has said who it is bounds it also after.
#[test]
fn values_of_many_pieces_come_back() {
    let (mut cluster, token) = Cluster::one();
    let value: Vec<u8> = (0..3_000_000_u32).map(|at| (at % 251) as u8).collect();
    cluster.put(1, token, format!("*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len()).as_bytes());
    for piece in value.chunks(10_000) {
        cluster.put(1, token, piece);
    }
    assert_eq!(says(&mut cluster, 1, token, ""), "+OK");
    cluster.put(1, token, b"GET k\r\n");
    cluster.settle();
    let found = cluster.take(1, token);
    assert_eq!(found, [b"$3000000\r\n", &value[..], b"\r\n"].concat());
}

/// Hazard: each connection keeps to its bound, and all together take what memory there is.
#[test]
fn clients_that_have_most_in_memory_are_closed() {
    let settings = Settings { memory_bytes_max: 1 << 20, ..Settings::default() };
    let mut cluster = Cluster::new(1, &settings);
    let tokens: Vec<u32> = (0..4).map(|_| cluster.open(1)).collect();
    // A request that is not whole, one that waits for EXEC, and replies that nobody takes.
    cluster.put(1, tokens[0], b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$500000\r\n");
    cluster.put(1, tokens[0], &[b'x'; 400_000]);
    are(&mut cluster, 1, tokens[1], &[("MULTI", "+OK"), (&format!("SET k {}", "x".repeat(60_000)), "+QUEUED")]);
    assert_eq!(says(&mut cluster, 1, tokens[2], &format!("SET big {}", "x".repeat(60_000))), "+OK");
    let bytes = cluster.at(1).clients.bytes();
    assert!((460_000..500_000).contains(&bytes), "{bytes}");
    cluster.put(1, tokens[2], "GET big\r\n".repeat(12).as_bytes());
    cluster.settle();
    let clients = &mut cluster.at(1).clients;
    assert_eq!(tokens.iter().map(|token| clients.is_killed(*token)).collect::<Vec<_>>(), [false, false, true, false]);
    assert!(clients.is_over(tokens[2]) && !clients.wants_input(tokens[2]));
    assert_eq!(clients.statistics().evicted, 1);
    clients.close(tokens[2]);
    assert!(clients.bytes() < 500_000, "{}", clients.bytes());
    // Those who had less go on.
    cluster.put(1, tokens[0], &[b'y'; 100_000]);
    are(&mut cluster, 1, tokens[0], &[("", "+OK"), ("STRLEN k", ":500000")]);
    are(&mut cluster, 1, tokens[1], &[("EXEC", "*1 +OK"), ("STRLEN k", ":60000")]);
    tokens.iter().for_each(|token| cluster.at(1).clients.close(*token));
    assert_eq!(cluster.at(1).clients.bytes(), 0);
}

/// The backlog of one connection is refused beyond its bound, and the connection goes on.
#[test]
fn what_a_transaction_holds_and_watches_is_bounded() {
    let (mut cluster, token) = Cluster::one();
    let keys = |count: usize| (0..count).map(|number| format!(" k{number}")).collect::<String>();
    are(
        &mut cluster,
        1,
        token,
        &[
            (&format!("WATCH{}", keys(5000)), "+OK"),
            (&format!("WATCH{}", keys(5000)), "+OK"),
            ("WATCH k", "+OK"),
            (&format!("WATCH{}", keys(5000)), "-ERR a connection watches 10000 keys at most"),
            ("UNWATCH", "+OK"),
        ],
    );
    let aborted = "-EXECABORT Transaction discarded because of previous errors.";
    let refused = "-ERR the transaction has more than 32768 commands or 67108864 bytes";
    assert_eq!(says(&mut cluster, 1, token, "MULTI"), "+OK");
    for _ in 0..32 {
        let queued = says(&mut cluster, 1, token, &vec!["PING"; 1024].join(" / "));
        assert!(queued.ends_with("+QUEUED"), "{queued}");
    }
    are(&mut cluster, 1, token, &[("PING", refused), ("EXEC", aborted), ("PING", "+PONG")]);
    // By bytes: what was queued is let go at once.
    assert_eq!(says(&mut cluster, 1, token, "MULTI"), "+OK");
    let large = format!("*3 / $3 / SET / $1 / k / $16000000 / {}", "v".repeat(16_000_000));
    for _ in 0..4 {
        assert_eq!(says(&mut cluster, 1, token, &large), "+QUEUED");
    }
    assert!(cluster.at(1).clients.bytes() > 60_000_000);
    are(&mut cluster, 1, token, &[(&large, refused)]);
    assert!(cluster.at(1).clients.bytes() < 20_000_000, "{}", cluster.at(1).clients.bytes());
    are(&mut cluster, 1, token, &[("EXEC", aborted), ("PING", "+PONG")]);
}

/// Hazard: WATCH looks at keys past the door that all other commands go through, and nobody counts
/// what it keeps.
#[test]
fn watched_keys_are_no_longer_than_others_and_are_counted() {
    let (mut cluster, token) = Cluster::one();
    let long = "-ERR a key of 32001 bytes is too long: 32000 at most";
    are(&mut cluster, 1, token, &[(&format!("WATCH {}", "x".repeat(32_001)), long)]);
    for number in 0..100 {
        let key = format!("{number}{}", "x".repeat(30_000));
        are(&mut cluster, 1, token, &[(&format!("WATCH {key} {key}"), "+OK")]);
    }
    let bytes = cluster.at(1).clients.bytes();
    assert!((3_000_000..3_100_000).contains(&bytes), "{bytes}");
    are(&mut cluster, 1, token, &[("UNWATCH", "+OK")]);
    assert_eq!(cluster.at(1).clients.bytes(), 0);
}

/// Hazard: a request that is kept keeps the memory of all that came with it, and only its own bytes
/// are counted.
#[test]
fn what_comes_between_requests_that_are_kept_is_counted() {
    let mut cluster = Cluster::new(3, &Settings::default());
    let (reader, writer) = (cluster.open(1), cluster.open(1));
    let sparse = [&b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"[..], &b"\r\n".repeat(32 << 10)].concat();
    for _ in 0..20 {
        cluster.put(1, reader, &sparse);
    }
    assert!(!cluster.at(1).clients.wants_input(reader));
    assert!(cluster.at(1).clients.bytes() > 1 << 20, "{}", cluster.at(1).clients.bytes());
    cluster.settle();
    assert!(cluster.take(1, reader).starts_with(b"$-1\r\n$-1\r\n"));
    cluster.settle();
    assert!(cluster.at(1).clients.wants_input(reader) && cluster.at(1).clients.bytes() < 1000);
    are(&mut cluster, 1, writer, &[("MULTI", "+OK")]);
    for _ in 0..500 {
        cluster.put(1, writer, &sparse);
    }
    assert!(cluster.at(1).clients.bytes() > 30 << 20, "{}", cluster.at(1).clients.bytes());
    for _ in 0..600 {
        cluster.put(1, writer, &sparse);
    }
    assert!(cluster.at(1).clients.bytes() < 1 << 20, "{}", cluster.at(1).clients.bytes());
    let said = says(&mut cluster, 1, writer, "EXEC");
    assert!(said.contains("-ERR the transaction has more than") && said.ends_with("of previous errors."), "{said}");
}

/// Hazard: a million rules are all applied, each held against those before, to find that they are
/// too many.
#[test]
fn rules_and_patterns_that_are_too_long_are_refused_before_they_are_looked_at() {
    let (mut cluster, token) = Cluster::one();
    let refused = "-ERR a user is given 32768 bytes of rules at once at most";
    let rules: String = (0..5000).map(|number| format!(" ~k{number}")).collect();
    are(&mut cluster, 1, token, &[(&format!("ACL SETUSER eve +nope{rules}"), refused), ("ACL USERS", "*1 $7 default")]);
    let many = |word: &str| format!(" {word}").repeat(1100);
    for (line, refused) in [
        ("ACL SETUSER eve", "-ERR a user is given 1024 rules at once at most"),
        ("ACL DELUSER", "-ERR 'acl|deluser' takes 1024 arguments at most"),
        ("CONFIG GET", "-ERR 'config|get' takes 1024 arguments at most"),
        ("LATENCY HISTOGRAM", "-ERR 'latency|histogram' takes 1024 arguments at most"),
        ("CLIENT LIST ID", "-ERR 'client|list' takes 1024 arguments at most"),
    ] {
        are(&mut cluster, 1, token, &[(&format!("{line}{}", many("+get")), refused)]);
    }
    let (long, refused) = ("x".repeat(32_001), "-ERR a pattern of 32001 bytes is too long: 32000 at most");
    for line in ["CONFIG GET", "COMMAND LIST FILTERBY PATTERN", "KEYS"] {
        are(&mut cluster, 1, token, &[(&format!("{line} {long}"), refused)]);
    }
}

/// Hazard: a short request asks for long replies, many times, and they are all made before anybody
/// counts them.
#[test]
fn replies_that_are_much_longer_than_their_requests_are_bounded() {
    let (mut cluster, token) = Cluster::one();
    let names = |count| " client".repeat(count);
    assert!(says(&mut cluster, 1, token, &format!("COMMAND INFO{}", names(1000))).starts_with("*1000 *10 "));
    for inner in ["INFO", "DOCS"] {
        are(&mut cluster, 1, token, &[(&format!("COMMAND {inner}{}", names(1001)), "-ERR 1000 names at most")]);
    }
    assert_eq!(says(&mut cluster, 1, token, "MULTI"), "+OK");
    let queued = says(&mut cluster, 1, token, &vec!["COMMAND DOCS"; 3000].join(" / "));
    assert!(queued.ends_with("+QUEUED"), "{queued}");
    let aborted = "-EXECABORT Transaction discarded: its answers have more than 67108864 bytes";
    are(&mut cluster, 1, token, &[("SET k 1 / EXEC / GET k", &format!("+QUEUED {aborted} $-1"))]);
}

/// Hazard: many commands of which each keeps to its bound fill the memory together.
#[test]
fn what_one_exec_reads_and_answers_is_bounded() {
    let (mut cluster, token) = Cluster::one();
    let aborted = "-EXECABORT Transaction discarded: its values have more than 536870912 bytes";
    let large = format!("*3 / $3 / SET / $1 / k / $4000000 / {}", "v".repeat(4_000_000));
    are(&mut cluster, 1, token, &[(&large, "+OK")]);
    for number in 0..60 {
        are(&mut cluster, 1, token, &[(&format!("SET {number:030000} v"), "+OK")]);
    }
    for number in 0..20 {
        are(&mut cluster, 1, token, &[(&format!("ACL SETUSER u{number} ~{}", "k".repeat(30_000)), "+OK")]);
    }
    let mut exec = |command: &str, count: usize| {
        are(&mut cluster, 1, token, &[("MULTI / SET n 1", "+OK +QUEUED")]);
        for _ in 0..count {
            are(&mut cluster, 1, token, &[(command, "+QUEUED")]);
        }
        let said = says(&mut cluster, 1, token, "EXEC");
        (said.len(), if said.starts_with('-') { said } else { String::new() }, says(&mut cluster, 1, token, "GET n"))
    };
    // Bytes that are read, though few are answered.
    assert_eq!(exec("EXPIRE k 1000", 140), (aborted.len(), aborted.to_owned(), "$-1".to_owned()));
    // Bytes of answers, of keys and of what the server knows.
    assert_eq!(exec("GET k", 140), (aborted.len(), aborted.to_owned(), "$-1".to_owned()));
    let aborted =
        "-EXECABORT Transaction discarded: it looks at more than 32768 keys, where one that it changes counts twice";
    assert_eq!(exec("KEYS *", 300), (aborted.len(), aborted.to_owned(), "$-1".to_owned()));
    let aborted = "-EXECABORT Transaction discarded: its answers have more than 67108864 bytes";
    assert_eq!(exec("ACL LIST", 900), (aborted.len(), aborted.to_owned(), "$-1".to_owned()));
    let (length, error, set) = exec("KEYS *", 3);
    assert!(length > 3 * 60 * 30_000 && error.is_empty() && set == "$1 1", "{length} {error} {set}");
}

#[test]
fn users_have_their_rights_in_the_whole_cluster() {
    let mut cluster = Cluster::new(3, &Settings::default());
    let (admin, alice, far) = (cluster.open(1), cluster.open(1), cluster.open(2));
    are(
        &mut cluster,
        1,
        admin,
        &[
            ("ACL SETUSER alice on >pw ~a:* +@read +set +acl|whoami", "+OK"),
            (
                "ACL SETUSER alice +nope",
                "-ERR Error in ACL SETUSER modifier '+nope': Unknown command or category name in ACL",
            ),
            ("ACL USERS", "*2 $5 alice $7 default"),
            ("SET b 1", "+OK"),
        ],
    );
    let denied = "-NOPERM this user has no permissions to access one of the keys used as arguments";
    are(
        &mut cluster,
        1,
        alice,
        &[
            ("AUTH alice no", "-WRONGPASS invalid username-password pair or user is disabled."),
            ("AUTH alice pw / ACL WHOAMI", "+OK $5 alice"),
            ("SET a:1 x / GET a:1", "+OK $1 x"),
            ("GET b", denied),
            ("MGET a:1 b", denied),
            ("DEL a:1", "-NOPERM this user has no permissions to run the 'del' command"),
            ("MULTI", "-NOPERM this user has no permissions to run the 'multi' command"),
            ("ACL LIST", "-NOPERM this user has no permissions to run the 'acl|list' command"),
            ("PERDURA.ONCE s 1 SET a:1 x", "-NOPERM this user has no permissions to run the 'perdura.once' command"),
        ],
    );
    cluster.pass(100);
    are(&mut cluster, 2, far, &[("AUTH alice pw / GET b", &format!("+OK {denied}"))]);
    // In one go: a change takes effect for the requests behind it.
    are(&mut cluster, 1, admin, &[("ACL SETUSER bob on >x +@all ~* / AUTH bob x / ACL WHOAMI", "+OK +OK $3 bob")]);
    are(&mut cluster, 1, admin, &[("ACL DELUSER alice nobody", ":1")]);
    cluster.pass(100);
    assert!(cluster.at(1).clients.is_over(alice) && cluster.at(2).clients.is_over(far));
    assert!(!cluster.at(1).clients.is_over(admin));
}

/// Hazard: users that are made by many at once, before any of it is applied, are more than there
/// may be.
#[test]
fn users_are_bounded_in_number_and_in_size() {
    let (mut cluster, token) = Cluster::one();
    let makers: Vec<u32> = (0..1001).map(|_| cluster.open(1)).collect();
    for maker in &makers {
        cluster.put(1, *maker, format!("ACL SETUSER u{maker} on\r\n").as_bytes());
    }
    cluster.settle();
    let said: Vec<Vec<u8>> = makers.iter().map(|maker| cluster.take(1, *maker)).collect();
    let refused = "-ERR there are 1000 users already";
    assert_eq!(said.iter().filter(|said| &said[..] == b"+OK\r\n").count(), 1000);
    assert_eq!(String::from_utf8_lossy(&said[1000]).trim_end(), refused);
    let known = format!("ACL SETUSER u{} off", makers[0]);
    let long = |key: &str| format!("ACL SETUSER u{} ~{}", makers[1], key.repeat(20_000));
    are(
        &mut cluster,
        1,
        token,
        &[
            ("ACL SETUSER more on", refused),
            ("ACL SETUSER default +@all", "+OK"),
            (&known, "+OK"),
            (&long("k"), "+OK"),
            (&long("l"), "-ERR a user has 32768 bytes of rules at most"),
            (&format!("ACL DELUSER u{}", makers[0]), ":1"),
            ("ACL SETUSER more on", "+OK"),
            ("ACL SETUSER another on", refused),
        ],
    );
    assert!(says(&mut cluster, 1, token, "ACL USERS").starts_with("*1001 "));
}

#[test]
fn who_has_a_password_asks_for_it() {
    let hash = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";
    let settings = Settings { default_password: Some(hash.to_owned()), ..Settings::default() };
    let mut cluster = Cluster::new(1, &settings);
    let token = cluster.open(1);
    let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
    are(
        &mut cluster,
        1,
        token,
        &[
            ("GET k", "-NOAUTH Authentication required."),
            ("MULTI", "-NOAUTH Authentication required."),
            ("AUTH no", wrong),
            ("HELLO 2 AUTH default no", wrong),
            ("AUTH pw / GET k", "+OK $-1"),
            ("RESET / GET k", "+RESET -NOAUTH Authentication required."),
        ],
    );
    cluster.put(1, token, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$99999\r\n");
    assert_eq!(cluster.take(1, token), b"-ERR Protocol error: invalid bulk length\r\n");
    assert!(cluster.at(1).clients.is_over(token));
}

#[test]
fn a_follower_sends_writes_to_the_leader_and_reads_what_is_newest() {
    let mut cluster = Cluster::new(3, &Settings::default());
    let (mine, far) = (cluster.open(1), cluster.open(2));
    are(&mut cluster, 1, mine, &[("SET foo 1", "+OK")]);
    are(
        &mut cluster,
        2,
        far,
        &[
            ("GET foo", "$1 1"),
            ("SET foo 2 / GET foo", "-MOVED 12182 127.0.0.1:7001 $1 1"),
            (
                "MULTI / SET foo 2 / EXEC",
                "+OK -MOVED 12182 127.0.0.1:7001 -EXECABORT Transaction discarded because of previous errors.",
            ),
            ("CLUSTER KEYSLOT foo", ":12182"),
            ("CLUSTER MYID", "$40 0000000000000000000000000000000000000002"),
        ],
    );
    let slots = says(&mut cluster, 2, far, "CLUSTER SLOTS");
    assert!(slots.starts_with("*1 *5 :0 :16383 *4 $9 127.0.0.1 :7001 "), "{slots}");
    let nodes = says(&mut cluster, 2, far, "CLUSTER NODES");
    assert_eq!(nodes.matches("myself,slave").count(), 1, "{nodes}");
    assert!(nodes.contains("7001@7001 master - 0 0") && nodes.contains("connected 0-16383"), "{nodes}");
    // The state that a follower has applied may be old; a client that wants it has it at once.
    are(&mut cluster, 2, far, &[("READONLY", "+OK")]);
    cluster.at(2).is_cut_off = true;
    are(&mut cluster, 1, mine, &[("SET foo 3", "+OK")]);
    are(&mut cluster, 2, far, &[("GET foo", "$1 1"), ("READWRITE / PING", "+OK +PONG")]);
    cluster.put(2, far, b"GET foo\r\n");
    cluster.settle();
    assert_eq!(cluster.take(2, far), b"", "it cannot know");
    cluster.pass(1_000);
    assert_eq!(cluster.take(2, far), b"-CLUSTERDOWN The cluster is down: no leader is known\r\n");
}

/// The leader is cut off with writes under way: clients that wait get what is known of them, and
/// nothing else.
#[test]
fn a_lost_leader_says_what_it_does_not_know() {
    let mut cluster = Cluster::new(3, &Settings::default());
    let token = cluster.open(1);
    are(&mut cluster, 1, token, &[("SET k 1", "+OK")]);
    cluster.at(1).is_cut_off = true;
    cluster.put(1, token, b"SET k 2\r\nGET k\r\nSET k 3 NX\r\n");
    cluster.settle();
    assert_eq!(cluster.take(1, token), b"");
    cluster.pass(2_000);
    let leader = leader(&cluster);
    assert!(leader > 1, "{leader}");
    let other = cluster.open(leader);
    are(&mut cluster, leader, other, &[("GET k / SET k 4 / SET k 5", "$1 1 +OK +OK")]);
    cluster.at(1).is_cut_off = false;
    cluster.pass(1_000);
    let said = String::from_utf8(cluster.take(1, token)).expect("a text");
    let kinds: Vec<&str> = said.lines().map(|line| line.split(' ').next().unwrap_or_default()).collect();
    assert_eq!(kinds.len(), 3, "{said}");
    assert!(matches!(kinds[0], "-MOVED" | "-UNKNOWN"), "{said}");
    assert!(kinds[1..].iter().all(|kind| matches!(*kind, "-MOVED" | "-CLUSTERDOWN")), "{said}");
    are(&mut cluster, 1, token, &[("GET k", "$1 5")]);
}

#[test]
fn wait_answers_what_is_so() {
    let mut cluster = Cluster::new(3, &Settings::default());
    let (token, far) = (cluster.open(1), cluster.open(2));
    are(
        &mut cluster,
        1,
        token,
        &[
            ("SET k 1 / WAIT 2 0 / PING", "+OK :2 +PONG"),
            ("WAITAOF 1 2 0", "*2 :1 :2"),
            ("WAIT 3 0", "-ERR there cannot be 3 other replicas: the cluster has 2"),
            ("WAIT x 0", "-ERR value is not an integer or out of range"),
            ("WAIT 0 x", "-ERR timeout is not an integer or out of range"),
            ("WAIT 0 -1", "-ERR timeout is negative"),
        ],
    );
    are(&mut cluster, 2, far, &[("WAIT 0 0", "-MOVED 0 127.0.0.1:7001")]);
    cluster.at(3).is_cut_off = true;
    are(&mut cluster, 1, token, &[("SET k 2 / WAIT 2 100 / GET k", "+OK")]);
    cluster.pass(150);
    assert_eq!(cluster.take(1, token), b":1\r\n$1\r\n2\r\n");
    are(&mut cluster, 1, token, &[("SET k 3 / WAIT 2 0", "+OK")]);
    cluster.at(3).is_cut_off = false;
    cluster.pass(500);
    assert_eq!(cluster.take(1, token), b":2\r\n");
}

#[test]
fn a_request_that_comes_again_is_not_done_again() {
    let mut cluster = Cluster::new(3, &Settings::default());
    let token = cluster.open(1);
    are(
        &mut cluster,
        1,
        token,
        &[
            ("PERDURA.ONCE me 1 INCR n / PERDURA.ONCE me 1 INCR n / GET n", ":1 :1 $1 1"),
            ("PERDURA.ONCE me 2 MGET n none", "*2 $1 1 $-1"),
            ("INCR n / PERDURA.ONCE me 2 MGET n none", ":2 *2 $1 1 $-1"),
            ("PERDURA.ONCE me 1 INCR n", "-ERR request 1 of the session is past: 2 was done"),
            ("PERDURA.ONCE me 2 MGET n", "-ERR request 2 of the session was another command: take the next number"),
            ("PERDURA.ONCE new 5 INCR n", "-ERR the session is unknown, or was forgotten: begin one with request 1"),
            ("PERDURA.ONCE me 3 SET n x NX / DEL n / PERDURA.ONCE me 3 SET n x NX", "$-1 :1 $-1"),
            (
                "SET n x / PERDURA.ONCE me 4 INCR n / DEL n / PERDURA.ONCE me 4 INCR n",
                "+OK -ERR value is not an integer or out of range :1 -ERR value is not an integer or out of range",
            ),
            ("PERDURA.ONCE me 5 PING", "-ERR 'ping' cannot be done once: it is no business of keys"),
            ("PERDURA.ONCE me 0 GET k", "-ERR the number of a request is above 0, and rises"),
            ("PERDURA.ONCE me 5 GET", "-ERR wrong number of arguments for 'get' command"),
            ("PERDURA.ONCE me 5 SET big 1", "+OK"),
        ],
    );
    are(&mut cluster, 1, token, &[(&format!("PERDURA.ONCE me 6 SET big {}", "x".repeat(2000)), "+OK")]);
    let long = format!("$2000 {}", "x".repeat(2000));
    are(&mut cluster, 1, token, &[("PERDURA.ONCE me 7 GET big", &long)]);
    are(
        &mut cluster,
        1,
        token,
        &[("PERDURA.ONCE me 7 GET big", "-ERR the request was done, but its reply was too long to be kept")],
    );
    // Another leader knows it too.
    cluster.at(1).is_cut_off = true;
    cluster.pass(2_000);
    let leader = leader(&cluster);
    let other = cluster.open(leader);
    are(
        &mut cluster,
        leader,
        other,
        &[("PERDURA.ONCE me 6 SET big y", "-ERR request 6 of the session is past: 7 was done")],
    );
}

/// Hazard: a kept reply is given to every user who knows its id and number, whatever they may read.
#[test]
fn a_kept_reply_is_for_its_user_only() {
    let (mut cluster, token) = Cluster::one();
    let denied = "-NOPERM this user has no permissions to access one of the keys used as arguments";
    are(
        &mut cluster,
        1,
        token,
        &[
            ("ACL SETUSER eve on nopass ~e:* +@all / SET secret s / PERDURA.ONCE me 1 GET secret", "+OK +OK $1 s"),
            ("AUTH eve x / GET secret", &format!("+OK {denied}")),
            ("PERDURA.ONCE me 1 GET e:1 / PERDURA.ONCE me 1 GET e:1", "$-1 $-1"),
            ("AUTH default x / PERDURA.ONCE me 1 GET secret", "+OK $1 s"),
        ],
    );
}

/// No command comes, and still what has ended is cleared away, and TTL counts down.
#[test]
fn time_passes_for_keys_though_nobody_writes() {
    let mut cluster = Cluster::new(3, &Settings::default());
    let (token, far) = (cluster.open(1), cluster.open(2));
    are(&mut cluster, 1, token, &[("SET k v PX 500 / SET l v EX 100 / DBSIZE", "+OK +OK :2")]);
    cluster.pass(200);
    are(&mut cluster, 1, token, &[("PTTL k", ":300"), ("TTL l", ":100"), ("GET k", "$1 v")]);
    cluster.pass(310);
    are(&mut cluster, 1, token, &[("GET k / DBSIZE / TTL k", "$-1 :1 :-2")]);
    are(&mut cluster, 2, far, &[("GET k", "$-1")]);
    are(&mut cluster, 1, token, &[("FLUSHALL / DBSIZE / SET m 1 / KEYS *", "+OK :0 +OK *1 $1 m")]);
    cluster.pass(50);
    are(&mut cluster, 1, token, &[("KEYS * / DBSIZE", "*1 $1 m :1")]);
    assert_eq!(cluster.at(1).clients.statistics().expired, 1);
}

#[test]
fn connections_are_listed_named_and_closed() {
    let (mut cluster, token) = Cluster::one();
    let other = cluster.open(1);
    are(
        &mut cluster,
        1,
        token,
        &[
            ("CLIENT ID / CLIENT GETNAME / CLIENT SETNAME me / CLIENT GETNAME", ":1 $-1 +OK $2 me"),
            ("CLIENT SETINFO lib-name redis-x / CLIENT SETINFO lib-nope y", "+OK -ERR Unrecognized option 'lib-nope'"),
            ("CLIENT TRACKING on", "-ERR keys are not tracked: client-side caching is not supported"),
            ("CLIENT NOPE", "-ERR unknown subcommand 'NOPE'. Try CLIENT HELP."),
            ("CLIENT|ID", "-ERR unknown command 'CLIENT|ID', with args beginning with:"),
            ("CONFIG GET save", "*2 $4 save $0"),
            ("SELECT 0 / SELECT 1", "+OK -ERR DB index is out of range"),
        ],
    );
    let list = says(&mut cluster, 1, token, "CLIENT LIST");
    assert!(
        list.contains("name=me") && list.contains("lib-name=redis-x") && list.matches("id=").count() == 2,
        "{list}"
    );
    are(&mut cluster, 1, token, &[("CLIENT KILL ID 2", ":1"), ("CLIENT KILL ID 99", ":0")]);
    assert!(cluster.at(1).clients.is_over(other));
    cluster.at(1).clients.close(other);
    are(&mut cluster, 1, token, &[("QUIT", "+OK")]);
    assert!(cluster.at(1).clients.is_over(token));
}
