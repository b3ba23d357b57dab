//! How long commands take, on this replica: counts for INFO commandstats, LATENCY, and SLOWLOG of
//! the slowest.
//!
//! Times are those of the reactor that did the command, without what it waited for. Memory is
//! bounded: a line for each command, and the newest slow ones.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use super::lookup::too_many;
use super::profile::Profile;
use crate::command::{Command, help, integer};
use crate::resp::Reply;

/// Buckets of a histogram: the upper bounds are powers of two in microseconds.
const BUCKETS: usize = 32;
/// Arguments of a slow command that are kept, and bytes of each.
const ARGUMENTS_MAX: usize = 32;
const ARGUMENT_BYTES_MAX: usize = 128;
/// Spikes of an event that are kept.
const SPIKES_MAX: usize = 160;
/// Slow commands that are returned unless more are asked for.
const SHOWN: i64 = 10;

/// Counts of a command.
#[derive(Clone, Debug, Default)]
struct Counts {
    calls: u64,
    us: u64,
    rejected: u64,
    failed: u64,
    buckets: [u64; BUCKETS],
}

/// A command that took long.
#[derive(Debug)]
struct Slow {
    id: u64,
    at_s: u64,
    us: u64,
    arguments: Vec<Bytes>,
    client: String,
    name: Bytes,
}

/// How long commands take.
#[derive(Debug, Default)]
pub(super) struct Performance {
    lines: BTreeMap<&'static str, Counts>,
    slow: VecDeque<Slow>,
    next: u64,
    /// Spikes by event: when, in seconds since 1970, and how many milliseconds.
    spikes: BTreeMap<&'static str, VecDeque<(u64, u64)>>,
    most_ms: BTreeMap<&'static str, u64>,
    /// Whether the command that is being done has been refused by its keys or values.
    has_failed: bool,
}

/// Bounds of what is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Thresholds {
    pub slow_us: u64,
    pub slow_max: usize,
    /// 0: no spikes are kept.
    pub spike_ms: u64,
}

/// The arguments of a request that may be kept.
pub(super) fn front(request: &[Bytes]) -> Vec<Bytes> {
    request[..request.len().min(ARGUMENTS_MAX)].to_vec()
}

/// An argument as it is kept.
fn shortened(argument: &Bytes) -> Bytes {
    let more = argument.len().saturating_sub(ARGUMENT_BYTES_MAX);
    if more == 0 {
        return Bytes::copy_from_slice(argument);
    }
    [&argument[..ARGUMENT_BYTES_MAX], format!("... ({more} more bytes)").as_bytes()].concat().into()
}

/// The arguments of a request as they are kept. Passwords are not.
fn kept(command: &Command, request: &[Bytes], count: usize) -> Vec<Bytes> {
    let words = 1 + usize::from(command.name.contains('|'));
    if command.has_flag("no_auth") || command.name == "acl|setuser" {
        let hidden = request.iter().skip(words).map(|_| Bytes::from_static(b"(redacted)"));
        return request.iter().take(words).map(shortened).chain(hidden).take(ARGUMENTS_MAX).collect();
    }
    let more = count.saturating_sub(ARGUMENTS_MAX);
    if more == 0 {
        return request.iter().map(shortened).collect();
    }
    let last = Bytes::from(format!("... ({} more arguments)", more + 1));
    request[..ARGUMENTS_MAX - 1].iter().map(shortened).chain([last]).collect()
}

impl Performance {
    /// A command begins.
    pub(super) fn begin(&mut self) {
        self.has_failed = false;
    }

    /// Notes what came of the command that is being done: whether its keys or values refused it.
    pub(super) fn set_outcome(&mut self, reply: &Reply) {
        self.has_failed = matches!(reply, Reply::Error(_));
    }

    /// Notes that a command was not taken.
    pub(super) fn reject(&mut self, name: &'static str) {
        self.lines.entry(name).or_default().rejected += 1;
    }

    /// Notes that a command of a connection took so long. `front` are the first arguments of
    /// `count`, at least as many as [`front`] returns.
    pub(super) fn note(
        &mut self,
        profile: &Profile,
        (command, front, count): (&Command, &[Bytes], usize),
        us: u64,
        now_us: u64,
        bounds: Thresholds,
    ) {
        let line = self.lines.entry(command.name).or_default();
        line.calls += 1;
        line.us += us;
        line.failed += u64::from(std::mem::take(&mut self.has_failed));
        line.buckets[(us.max(1).next_power_of_two().ilog2() as usize).min(BUCKETS - 1)] += 1;
        let at_s = now_us / 1_000_000;
        if bounds.spike_ms > 0 && us / 1000 >= bounds.spike_ms {
            let event = if command.has_flag("fast") { "fast-command" } else { "command" };
            let spikes = self.spikes.entry(event).or_default();
            if spikes.len() >= SPIKES_MAX {
                spikes.pop_front();
            }
            spikes.push_back((at_s, us / 1000));
            let most = self.most_ms.entry(event).or_default();
            *most = (*most).max(us / 1000);
        }
        if us >= bounds.slow_us && bounds.slow_max > 0 {
            let (client, name) = (profile.peer().address.clone(), profile.name().clone());
            self.slow.push_front(Slow {
                id: self.next,
                at_s,
                us,
                arguments: kept(command, front, count),
                client,
                name,
            });
            self.next += 1;
        }
        self.slow.truncate(bounds.slow_max);
    }

    /// Forgets the counts.
    pub(super) fn reset(&mut self) {
        self.lines.clear();
    }

    /// The lines of INFO commandstats.
    pub(super) fn shown(&self) -> Vec<(String, String)> {
        let shown = |(name, line): (&&str, &Counts)| {
            let Counts { calls, us, rejected, failed, .. } = line;
            let each = *us as f64 / (*calls).max(1) as f64;
            let text = format!(
                "calls={calls},usec={us},usec_per_call={each:.2},rejected_calls={rejected},failed_calls={failed}"
            );
            (format!("cmdstat_{name}"), text)
        };
        self.lines.iter().map(shown).collect()
    }

    /// SLOWLOG and what follows.
    pub(super) fn slowlog(&mut self, inner: &str, request: &[Bytes]) -> Reply {
        match inner {
            "get" if request.len() > 3 => too_many(request),
            "get" => {
                let count = request.get(2).map_or(Ok(SHOWN), |count| integer(count));
                let count = match count {
                    Ok(-1) => usize::MAX,
                    Ok(count) if count >= 0 => count as usize,
                    _ => return Reply::error("count should be greater than or equal to -1"),
                };
                let number = |number: u64| Reply::Integer(number as i64);
                let entry = |slow: &Slow| {
                    let arguments = slow.arguments.iter().cloned().map(Reply::Bytes).collect();
                    Reply::Array(vec![
                        number(slow.id),
                        number(slow.at_s),
                        number(slow.us),
                        Reply::Array(arguments),
                        Reply::text(slow.client.clone()),
                        Reply::Bytes(slow.name.clone()),
                    ])
                };
                Reply::Array(self.slow.iter().take(count).map(entry).collect())
            }
            "len" => Reply::Integer(self.slow.len() as i64),
            "reset" => {
                self.slow.clear();
                Reply::OK
            }
            _ => help("slowlog"),
        }
    }

    /// LATENCY and what follows.
    pub(super) fn latency(&mut self, inner: &str, request: &[Bytes]) -> Reply {
        let number = |number: u64| Reply::Integer(number as i64);
        let names: Vec<String> = request[2..].iter().map(|name| String::from_utf8_lossy(name).to_lowercase()).collect();
        let is_named = |name: &str| names.is_empty() || names.iter().any(|wanted| wanted == name);
        match inner {
            "histogram" => {
                let shown = self.lines.iter().filter(|(name, line)| line.calls > 0 && is_named(name));
                Reply::Map(shown.map(|(name, line)| (Reply::text(*name), histogram(line))).collect())
            }
            "latest" => {
                let latest = |(event, spikes): (&&str, &VecDeque<(u64, u64)>)| {
                    let (at_s, ms) = spikes.back()?;
                    let most = self.most_ms.get(*event).copied().unwrap_or(*ms);
                    Some(Reply::Array(vec![Reply::text(*event), number(*at_s), number(*ms), number(most)]))
                };
                Reply::Array(self.spikes.iter().filter_map(latest).collect())
            }
            "history" => {
                let spikes = names.first().and_then(|event| self.spikes.get(&event[..]));
                let spike = |(at_s, ms): &(u64, u64)| Reply::Array(vec![number(*at_s), number(*ms)]);
                Reply::Array(spikes.into_iter().flatten().map(spike).collect())
            }
            "reset" => {
                let before = self.spikes.len();
                self.spikes.retain(|event, _| !is_named(event));
                self.most_ms.retain(|event, _| !is_named(event));
                Reply::Integer((before - self.spikes.len()) as i64)
            }
            _ => help("latency"),
        }
    }
}

/// Calls and, by the bounds of buckets that are not empty, how many took no longer.
fn histogram(line: &Counts) -> Reply {
    let (mut sum, mut buckets) = (0, Vec::new());
    for (power, count) in line.buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
        sum += *count as i64;
        buckets.push((Reply::Integer(1 << power), Reply::Integer(sum)));
    }
    Reply::Map(vec![
        (Reply::text("calls"), Reply::Integer(line.calls as i64)),
        (Reply::text("histogram_usec"), Reply::Map(buckets)),
    ])
}

#[cfg(test)]
mod tests {
    use super::{ARGUMENTS_MAX, Bytes, Performance, SPIKES_MAX, Thresholds, front, kept};
    use crate::client::profile::{Peer, Profile};
    use crate::command::{find, find_within};

    fn request(line: &str) -> Vec<Bytes> {
        line.split(' ').map(|word| Bytes::copy_from_slice(word.as_bytes())).collect()
    }

    /// Hazard: what slow commands leave behind fills the memory, or shows passwords.
    #[test]
    fn what_is_kept_of_slow_commands_is_bounded_and_no_secret() {
        let (set, mset) = (find(b"set").expect("SET"), find(b"mset").expect("MSET"));
        let long = request(&format!("SET k {}", "v".repeat(200)));
        assert_eq!(kept(set, &long, 3)[2], format!("{}... (72 more bytes)", "v".repeat(128)));
        let many = request(&format!("MSET{}", " k v".repeat(50)));
        let shown = kept(mset, &front(&many), many.len());
        assert_eq!((shown.len(), &shown[31][..]), (ARGUMENTS_MAX, &b"... (70 more arguments)"[..]));
        let auth = request("AUTH bob secret");
        assert_eq!(kept(find(b"auth").expect("AUTH"), &auth, 3).concat(), b"AUTH(redacted)(redacted)");
        let user = request("ACL SETUSER bob >secret");
        let setuser = find_within(find(b"acl").expect("ACL"), b"setuser").expect("ACL SETUSER");
        assert_eq!(kept(setuser, &user, 4).concat(), b"ACLSETUSER(redacted)(redacted)");

        let profile = Profile::new(1, Peer::default(), 0);
        let (mut performance, bounds) =
            (Performance::default(), Thresholds { slow_us: 10_000, slow_max: 3, spike_ms: 20 });
        for number in 0..500 {
            performance.note(&profile, (set, &long, 3), number * 100, 5_000_000, bounds);
        }
        assert_eq!(performance.slow.iter().map(|slow| slow.id).collect::<Vec<_>>(), [399, 398, 397]);
        assert_eq!(performance.spikes["command"].len(), SPIKES_MAX);
        assert_eq!(performance.most_ms["command"], 49);
        let (name, line) = &performance.shown()[0];
        assert_eq!(name, "cmdstat_set");
        assert!(line.starts_with("calls=500,usec=12475000,usec_per_call=24950.00,"), "{line}");
    }
}
