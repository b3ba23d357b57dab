//! Paths: the checkout, what `make setup` unpacked, and the directory of pools and test servers.

use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

/// The root of the checkout.
pub fn top() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the checkout")
}

/// Everything fetched or generated, except Cargo's own directory. Git ignores it.
pub fn build() -> PathBuf {
    top().join("build")
}

/// `basedir` of the unpacked server. Fails when `make setup` has not run.
pub fn mariadb() -> Result<PathBuf> {
    let basedir = build().join("mariadb/usr");
    ensure!(basedir.join("sbin/mariadbd").exists(), "no server under build/mariadb: run `make setup` first");
    Ok(basedir)
}

/// The plugin directory of the unpacked server, which also gets our plugin.
pub fn server_plugins() -> Result<PathBuf> {
    Ok(mariadb()?.join("lib/mysql/plugin"))
}

/// CSV files: the demo's real data and the generated workloads.
pub fn data() -> PathBuf {
    build().join("data")
}

/// `PERDURA_DIR`, the directory on (emulated) persistent memory; /dev/shm/perdura unless set.
pub fn medium() -> PathBuf {
    std::env::var_os("PERDURA_DIR").map_or_else(|| PathBuf::from("/dev/shm/perdura"), PathBuf::from)
}
