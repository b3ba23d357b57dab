//! Finds libpmemobj (PMDK), a peer, by pkg-config and links it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    if let Err(error) = pkg_config::Config::new().atleast_version("1.10").probe("libpmemobj") {
        eprintln!("libpmemobj 1.10 or newer is needed (Debian: apt-get install libpmemobj-dev): {error}");
        std::process::exit(1);
    }
}
