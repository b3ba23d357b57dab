//! A private network: a bridge, and nodes behind it, each a network namespace, which can be made to
//! drop the packets of others.
//!
//! The command runs itself again in namespaces of its own (`unshare`): network, mounts and
//! processes. So nothing of the network, no process and no mount outlives it, however it ends. Root
//! is not needed where users may make namespaces, as Debian lets them.

use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::shared::process;

/// Where the directory given to [`enter`] is seen inside.
pub const PLACE: &str = "/run/perdura-kv";

/// Script that runs before the command: /run and /dev/shm become private, since `ip` and
/// libfaketime leave files there.
const PREPARE: &str = "set -e; mount -t tmpfs none /run; mkdir \"$2\"; mount --bind \"$1\" \"$2\"; \
    mount -t tmpfs none /dev/shm; ip link set lo up; shift 2; exec \"$@\"";

/// Rules by which a node drops all packets from the addresses in a set.
const RULES: &str = "table inet wire { set dropped { type ipv4_addr; }; \
    chain input { type filter hook input priority 0; ip saddr @dropped drop; }; }\n";

/// Runs this program again, with other words, in namespaces of its own, where it sees `top` at
/// [`PLACE`].
pub fn enter(top: &Path, words: &[String]) -> Result<ExitStatus> {
    let mut unshare = vec!["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if !process::is_root() {
        unshare.extend(["--user", "--map-root-user"]);
    }
    let tried = Command::new("unshare").args(&unshare).arg("true").output().context("unshare (package util-linux)")?;
    ensure!(
        tried.status.success(),
        "no namespaces can be made here: run it as root, or allow users to make them (kernel.unprivileged_userns_clone = 1): {}",
        String::from_utf8_lossy(&tried.stderr).trim()
    );
    let mut again = Command::new("unshare");
    again.args(&unshare).args(["sh", "-c", PREPARE, "sh"]).arg(top).arg(PLACE);
    again.arg(std::env::current_exe()?).args(words).status().context("unshare")
}

/// The network, inside.
pub struct Net {
    count: usize,
}

fn ip(words: &str) -> Result<()> {
    process::output(Command::new("ip").args(words.split(' '))).context("ip (package iproute2)")?;
    Ok(())
}

impl Net {
    /// The address at the bridge.
    pub const BRIDGE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);

    /// A bridge with so many nodes. This process is at the bridge, and reaches all of them always.
    pub fn new(count: usize) -> Result<Self> {
        ip("link add bridge0 type bridge")?;
        ip(&format!("addr add {}/24 dev bridge0", Self::BRIDGE))?;
        ip("link set bridge0 up")?;
        for node in 0..count {
            ip(&format!("netns add node{node}"))?;
            ip(&format!("link add port{node} type veth peer name eth0 netns node{node}"))?;
            ip(&format!("link set port{node} master bridge0 up"))?;
            ip(&format!("-n node{node} addr add {}/24 dev eth0", Self::address(node)))?;
            ip(&format!("-n node{node} link set eth0 up"))?;
            ip(&format!("-n node{node} link set lo up"))?;
        }
        Ok(Self { count })
    }

    /// The same, with nodes that can be made to drop packets.
    pub fn with_drops(count: usize) -> Result<Self> {
        let net = Self::new(count)?;
        (0..count).try_for_each(|node| net.rule(node, RULES))?;
        Ok(net)
    }

    /// The address of a node.
    pub fn address(node: usize) -> Ipv4Addr {
        Ipv4Addr::new(10, 0, 0, node as u8 + 1)
    }

    /// The words before a command that is to run at a node.
    pub fn before(node: usize) -> Vec<String> {
        vec!["nsenter".into(), format!("--net=/run/netns/node{node}"), "--".into()]
    }

    fn rule(&self, node: usize, text: &str) -> Result<()> {
        let words = Self::before(node);
        let mut nft =
            Command::new(&words[0]).args(&words[1..]).args(["nft", "-f", "-"]).stdin(Stdio::piped()).spawn()?;
        nft.stdin.take().context("a pipe")?.write_all(text.as_bytes())?;
        let ended = nft.wait().context("nft (package nftables)")?;
        if !ended.success() {
            bail!("nft (package nftables): {ended}: {text}");
        }
        Ok(())
    }

    /// Makes one node drop the packets of another.
    pub fn drop_from(&self, node: usize, to: usize) -> Result<()> {
        self.rule(node, &format!("add element inet wire dropped {{ {} }}\n", Self::address(to)))
    }

    /// Lets all packets through again.
    pub fn heal(&self) -> Result<()> {
        (0..self.count).try_for_each(|node| self.rule(node, "flush set inet wire dropped\n"))
    }
}
