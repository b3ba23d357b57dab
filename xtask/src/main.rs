//! Perdura's own tooling, run as `cargo xtask COMMAND`.

fn main() {}
