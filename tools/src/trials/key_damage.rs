//! `cargo xtask key-damage`: reads columns back from damaged keys, under the sanitizers and without
//! a server (plugin/mariadb/fuzz/key_damage.cc).

use std::process::Command;

use anyhow::Result;

use crate::drive::plugin;
use crate::shared::args::Args;
use crate::shared::process;

const KEYS: u64 = 300_000;

/// `key-damage [--seed N] [--keys N]`: one seed a key, from the given one on.
pub fn run(mut args: Args) -> Result<()> {
    let seed = args.option("--seed")?.unwrap_or(1_u64);
    let keys = args.option("--keys")?.unwrap_or(KEYS);
    args.finish()?;
    let program = plugin::build_key_damage()?;
    process::run(Command::new(program).args([seed.to_string(), keys.to_string()]))
}
