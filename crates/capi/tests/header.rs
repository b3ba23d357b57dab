//! Hazard: a C header that says something else than the Rust side does, found only when a call goes wrong.
//! `PERDURA_BLESS=1` writes the header anew.

use std::path::Path;

#[test]
fn the_header_is_made_from_this_crate() {
    let crate_dir = Path::new(env!("CARGO_MANIFEST_DIR"));
    let config = cbindgen::Config::from_file(crate_dir.join("cbindgen.toml")).expect("cbindgen.toml");
    let mut sources: Vec<_> =
        std::fs::read_dir(crate_dir.join("src")).expect("src").map(|entry| entry.expect("an entry").path()).collect();
    sources.sort();
    let builder = sources
        .into_iter()
        .fold(cbindgen::Builder::new().with_config(config), |builder, source| builder.with_src(source));
    let mut made = Vec::new();
    builder.generate().expect("a header").write(&mut made);

    let path = crate_dir.join("include/perdura.h");
    if std::env::var_os("PERDURA_BLESS").is_some() {
        std::fs::write(&path, &made).expect("the header written");
    }
    let kept = std::fs::read(&path).expect("the header read");
    assert!(
        kept == made,
        "include/perdura.h is not what cbindgen makes: run with PERDURA_BLESS=1 and look at the difference"
    );
}
