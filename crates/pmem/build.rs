//! Links libpmem2 (PMDK), found by pkg-config.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Err(error) = pkg_config::Config::new().atleast_version("1.10").probe("libpmem2") {
        eprintln!("libpmem2 1.10 or newer is needed (Debian: apt-get install libpmem2-dev): {error}");
        std::process::exit(1);
    }
}
