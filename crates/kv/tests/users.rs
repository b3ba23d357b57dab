//! Users come back as they were from every store, and what cannot be read gives nobody rights.

use crate::support::seeds;

use crate::support::cluster::Cluster;
use crate::support::lines::{are, says};
use perdura_kv::client::{Notice, Settings};
use perdura_kv::sim::{VARIANTS, Variant};
use perdura_pmem::sim::Random;

/// A request as clients send it.
fn frame(words: &[Vec<u8>]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        out.extend(format!("${}\r\n", word.len()).into_bytes());
        out.extend(word);
        out.extend(b"\r\n");
    }
    out
}

fn asks(cluster: &mut Cluster, token: u32, words: &[Vec<u8>]) -> Vec<u8> {
    cluster.put(1, token, &frame(words));
    cluster.settle();
    cluster.take(1, token)
}

const WORDS: [&str; 22] = [
    "on",
    "off",
    "nopass",
    "resetpass",
    "allkeys",
    "resetkeys",
    "allchannels",
    "resetchannels",
    "+@all",
    "-@all",
    "reset",
    "+get",
    "-set",
    "+@string",
    "-@write",
    "+client|id",
    "~*",
    "&*",
    "%R~k",
    "%W~k",
    "&my channel",
    "&a +@all ~*",
];

fn rule(random: &mut Random) -> Vec<u8> {
    if random.percent(50) {
        return WORDS[random.below(WORDS.len() as u64) as usize].as_bytes().to_vec();
    }
    let mark = ["~", "%R~", "%W~", "%RW~", "&", ">", "#", "!"][random.below(8) as usize];
    let byte = |random: &mut Random| match random.below(4) {
        0 => b" *\t\0\x1B\r\n\x0B"[random.below(8) as usize],
        1 => b"ak*?["[random.below(5) as usize],
        _ => random.below(256) as u8,
    };
    let count = random.below(5);
    [mark.as_bytes().to_vec(), (0..count).map(|_| byte(random)).collect()].concat()
}

/// All that is shown of the users, and of what each may do to some keys.
fn shown(cluster: &mut Cluster, token: u32) -> Vec<Vec<u8>> {
    let word = |text: &str| text.as_bytes().to_vec();
    let mut all = vec![asks(cluster, token, &[word("ACL"), word("LIST")])];
    for user in ["default", "bob", "carol"] {
        all.push(asks(cluster, token, &[word("ACL"), word("GETUSER"), word(user)]));
        for request in [["GET", "k"], ["GET", "a"], ["STRLEN", "k"], ["DEL", "k"]] {
            let request = request.map(word).to_vec();
            all.push(asks(cluster, token, &[vec![word("ACL"), word("DRYRUN"), word(user)], request].concat()));
        }
    }
    all
}

/// A rule with a space in it was stored so that it was another rule, or could not be read at all;
/// bytes that are not UTF-8 changed.
#[test]
fn whatever_rules_are_accepted_users_are_the_same_after_a_restart() {
    for seed in seeds::seeds(12) {
        let random = &mut Random::new(seed);
        for variant in VARIANTS {
            let mut cluster = Cluster::with_maps(variant, &[32 << 20], &Settings::default());
            let token = cluster.open(1);
            for _ in 0..30 {
                let user = if random.one_in(2) { "bob" } else { "carol" };
                let count = 1 + random.below(3);
                let rules = (0..count).map(|_| rule(random));
                let words: Vec<Vec<u8>> =
                    ["ACL", "SETUSER", user].map(|word| word.as_bytes().to_vec()).into_iter().chain(rules).collect();
                asks(&mut cluster, token, &words);
            }
            let before = shown(&mut cluster, token);
            cluster.restart(1);
            let token = cluster.open(1);
            cluster.at(1).node.campaign().expect("a store");
            cluster.pass(200);
            let after = shown(&mut cluster, token);
            assert!(before == after, "PERDURA_SEED={seed} {variant:?}: {before:?} are {after:?}");
        }
    }
}

#[test]
fn rules_that_would_be_others_are_refused() {
    let mut cluster = Cluster::with_maps(Variant::List, &[32 << 20], &Settings::default());
    let token = cluster.open(1);
    for rule in ["&my channel", "&a +@all ~*", "~a ~*", "%R~a\tb", "&a\0"] {
        let words = ["ACL", "SETUSER", "bob", rule].map(|word| word.as_bytes().to_vec());
        let said = String::from_utf8_lossy(&asks(&mut cluster, token, &words)).into_owned();
        assert_eq!(said, format!("-ERR Error in ACL SETUSER modifier '{rule}': Syntax error\r\n"));
    }
    are(&mut cluster, 1, token, &[("ACL USERS", "*1 $7 default")]);
    let words = [b"ACL".to_vec(), b"SETUSER".to_vec(), b"bob".to_vec(), b"~\xFF*".to_vec(), b"&\xFE".to_vec()];
    assert_eq!(asks(&mut cluster, token, &words), b"+OK\r\n");
    let list = asks(&mut cluster, token, &[b"ACL".to_vec(), b"LIST".to_vec()]);
    assert!(list.windows(25).any(|part| part == b"user bob off ~\xFF* &\xFE -@all"), "{}", list.escape_ascii());
}

/// One user that could not be read kept all as they were; after a restart everybody was `default`
/// with all rights.
#[test]
fn who_cannot_be_read_has_no_rights_before_and_after_a_restart() {
    let newer = [&b"off >\x03\x01"[..], &[0; 16]].concat();
    for record in [&b"on nopass ~* &my channel +@all"[..], &newer, b"off >", b"\xFF", b"on nopass ~* +@all +nocommand"]
    {
        for name in ["bob", "default"] {
            let mut cluster = Cluster::with_maps(Variant::List, &[32 << 20], &Settings::default());
            let (admin, user) = (cluster.open(1), cluster.open(1));
            let rules =
                format!("ACL SETUSER alice on >pw ~* +@all / ACL SETUSER {name} on nopass ~* +@all / AUTH alice pw");
            are(&mut cluster, 1, admin, &[(&rules, "+OK +OK +OK")]);
            are(&mut cluster, 1, user, &[(&format!("AUTH {name} x / PING"), "+OK +PONG")]);
            let put = cluster.at(1).node.evaluate(1 << 63, |draft| {
                draft.put_system(&[b"\x01u", name.as_bytes()].concat(), Some(record.to_vec().into()));
                draft.put_system(b"\x01v", Some("changed".into()));
                Ok::<(), ()>(())
            });
            assert_eq!(put.expect("a store"), Ok(()));
            cluster.pass(20);
            assert!(cluster.at(1).clients.is_over(user), "{name}: {}", record.escape_ascii());
            let notices = cluster.at(1).clients.take_notices();
            assert!(
                notices.iter().any(|notice| matches!(notice, Notice::UserDisabled { user, .. } if user == name)),
                "{notices:?}"
            );
            assert_eq!(cluster.at(1).clients.users_disabled(), 1);
            cluster.restart(1);
            let token = cluster.open(1);
            cluster.at(1).node.campaign().expect("a store");
            cluster.pass(200);
            let wrong = "-WRONGPASS invalid username-password pair or user is disabled.";
            are(&mut cluster, 1, token, &[(&format!("AUTH {name} x"), wrong)]);
            if name == "default" {
                are(&mut cluster, 1, token, &[("GET k", "-NOAUTH Authentication required.")]);
            }
            are(&mut cluster, 1, token, &[("AUTH alice pw", "+OK")]);
            let said = says(&mut cluster, 1, token, &format!("ACL SETUSER {name} on"));
            assert!(said.contains("cannot be read") && said.contains("reset"), "{said}");
            are(
                &mut cluster,
                1,
                token,
                &[(&format!("ACL SETUSER {name} reset on nopass +ping / AUTH {name} x / PING"), "+OK +OK +PONG")],
            );
        }
    }
}
