//! A fence covers only its own thread's stores: chunks that one thread wrote and left unfenced must
//! not be lost when another thread commits, or prepares, the transaction (I3).

use crate::support::{create, found, recover, redo, settle, tiny};
use perdura_log::Recovery;
use perdura_pmem::sim::{CHOICES_DEFAULT, Random, Recorder, ReplayOptions, Scheduler, Seen, SimMedium};
use perdura_pmem::{Medium, trace};
use std::ops::ControlFlow;
use std::sync::Arc;

#[test]
fn chunks_of_another_thread_are_there_when_the_commit_is() {
    for prepares in [false, true] {
        let config = tiny(2, 4);
        let plain = SimMedium::new();
        let (medium, recorder) = Recorder::attach(plain);
        let medium: Arc<dyn Medium> = Arc::new(medium);
        create(&medium, &config, 1);
        let (log, _) = recover(&medium, &config).expect("it recovers");
        let _attached = trace::attach(recorder.clone());
        for n in 1..=4u8 {
            let mut txn = log.begin(0);
            Scheduler::new(1).run(vec![Box::new(|| txn.append_chunk(&[n; 200]).expect("room"))]);
            Scheduler::new(1).run(vec![Box::new(|| txn.append_chunk(&[n; 100]).expect("room"))]);
            if prepares {
                txn.prepare(&[n], &[n]).expect("room");
            } else {
                let reservation = txn.reserve(1).expect("room");
                settle(&log, txn.commit(reservation, &[n]));
            }
            trace::ack(n.into());
        }
        let (mut random, mut seen) = (Random::new(1), Seen::default());
        recorder.finish().replay(&ReplayOptions::default(), |point| {
            let acknowledged = point.marks().len();
            point.for_each_image(&mut random, &mut seen, CHOICES_DEFAULT, |image| {
                let medium: Arc<dyn Medium> = Arc::new(SimMedium::from_image(image));
                if acknowledged == 0 {
                    return;
                }
                let recovery = Recovery::open(medium, &config).expect("it recovers");
                let redone: Vec<Vec<u8>> = if prepares {
                    recovery.prepared.iter().map(|one| redo(&recovery, &one.bodies)).collect()
                } else {
                    found(&recovery).into_iter().map(|(_, redo)| redo).collect()
                };
                assert!(redone.len() >= acknowledged, "event {}: {} of {acknowledged}", point.index, redone.len());
                assert!((1u8..).zip(&redone).all(|(n, redo)| *redo == [n; 301]));
            });
            ControlFlow::Continue(())
        });
        assert!(seen.images() > 100, "{}", seen.images());
    }
}
