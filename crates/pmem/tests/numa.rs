//! Hazard: a real program is given a faked machine, and pins its threads to nodes that are not
//! there. Behaviour on faked machines is tested in `src/numa/tests.rs`.

use perdura_pmem::ErrorKind;
use perdura_pmem::numa::{Locality, Machine, Source, Topology};
use std::io;

/// Two nodes, both of them the first processor.
struct Faked;

impl Source for Faked {
    fn read(&self, path: &str) -> io::Result<String> {
        Ok(if path.ends_with("cpulist") { "0" } else { "0-1" }.to_owned())
    }

    fn node_of_page(&self, _address: *const u8) -> Option<u32> {
        Some(0)
    }
}

#[test]
fn a_faked_machine_is_refused_outside_of_tests() {
    let made = Machine::faked(Faked);
    if cfg!(feature = "faked") {
        made.expect("this build is for tests");
        return;
    }
    let error = made.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("feature `faked`"), "{error}");
}

/// Whatever this machine has, a thread that was attached is as it was.
#[test]
fn the_real_machine_is_read_and_threads_are_let_off() {
    let machine = Machine::real();
    let topology = Topology::read(&machine).expect("the kernel's own files");
    for node in topology.numbers().map(Some).chain([None, Some(u32::MAX)]) {
        let locality = Locality::of(&machine, || node);
        let before = machine.affinity(machine.thread()).expect("it runs somewhere");
        let attachment = locality.attach();
        let now = machine.affinity(machine.thread()).expect("it runs somewhere");
        assert!(!now.is_empty() && now.without(&before).is_empty(), "{now} of {before}");
        locality.balance();
        drop(attachment);
        assert_eq!(machine.affinity(machine.thread()).expect("it runs somewhere"), before);
        assert!(!locality.status().to_string().is_empty());
    }
}
