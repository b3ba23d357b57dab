//! A pool is refused when its memory has lost data since it was last open, and only then.

use perdura_engine::{Config, Engine, ErrorKind, Medium};
use perdura_pmem::{Modules, SimMedium};
use std::sync::Arc;

use crate::common::small;

fn modules(ids: &str, unsafe_shutdowns: u64) -> Option<Modules> {
    Some(Modules { ids: ids.to_owned(), unsafe_shutdowns })
}

/// The same files on a device of these modules.
fn moved(medium: &SimMedium, modules: Option<Modules>) -> Arc<SimMedium> {
    let copy = SimMedium::from_image(medium.image());
    Arc::new(match modules {
        Some(modules) => copy.of_modules(modules),
        None => copy,
    })
}

fn open(medium: &Arc<SimMedium>, accept_unsafe_shutdown: bool) -> perdura_engine::Result<()> {
    let config = Config { accept_unsafe_shutdown, ..small() };
    Engine::open(medium.clone() as Arc<dyn Medium>, config).map(|engine| engine.close())
}

#[test]
fn a_count_that_changed_on_the_same_modules_is_refused() {
    let medium = moved(&SimMedium::new(), modules("a,b", 7));
    open(&medium, false).expect("created");
    open(&moved(&medium, modules("a,b", 7)), false).expect("nothing was lost");
    for count in [8, 6, 0, u64::MAX] {
        let error = open(&moved(&medium, modules("a,b", count)), false).expect_err("data may be lost");
        assert_eq!(error.kind(), ErrorKind::Medium);
        for part in ["perdura check", "perdura_accept_unsafe_shutdown", "modules a,b", "7", &count.to_string()] {
            assert!(error.to_string().contains(part), "{part}: {error}");
        }
    }
}

#[test]
fn an_accepted_count_is_the_known_one_from_then_on() {
    let medium = moved(&SimMedium::new(), modules("a", 1));
    open(&medium, false).expect("created");
    let later = moved(&medium, modules("a", 2));
    open(&later, true).expect("accepted");
    open(&moved(&later, modules("a", 2)), false).expect("known");
    open(&moved(&later, modules("a", 1)), false).expect_err("the former count is another");
}

#[test]
fn a_pool_that_was_moved_is_taken_as_it_is() {
    let medium = moved(&SimMedium::new(), modules("a", 1));
    open(&medium, false).expect("created");
    let elsewhere = moved(&medium, modules("b", 9));
    open(&elsewhere, false).expect("other modules");
    open(&moved(&elsewhere, modules("b", 10)), false).expect_err("which it knows now");
    let silent = moved(&medium, None);
    open(&silent, false).expect("a device that does not count");
    open(&moved(&silent, modules("a", 5)), false).expect("the former device is forgotten");
}

#[test]
fn a_restored_pool_has_forgotten_its_device() {
    let medium = moved(&SimMedium::new(), modules("a", 1));
    open(&medium, false).expect("created");
    perdura_log::forget_device(&*medium).expect("written");
    open(&moved(&medium, modules("a", 2)), false).expect("restored behind the loss");
}
