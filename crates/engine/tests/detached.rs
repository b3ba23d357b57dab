//! Prepared transactions whose session ends keep nothing of the session but what decides them.

use crate::common::simulated::pool;
use perdura_engine::{ErrorKind, Isolation};
use std::time::Duration;

/// A write that a prepared transaction refuses begins a change, which must not outlive the session:
/// it would keep the pool from ever being held again.
#[test]
fn a_refused_write_does_not_keep_the_pool_from_being_held() {
    let (_medium, engine) = pool();
    let table = engine.create_table("t", b"").unwrap();
    let mut session = engine.session(Isolation::ReadCommitted);
    session.insert(&table, b"prepared").unwrap();
    session.prepare(b"x").unwrap();
    let error = session.insert(&table, b"refused").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotSupported);
    drop(session);
    assert_eq!(engine.prepared(), [b"x"]);
    let hold = engine.hold(Duration::from_millis(200)).unwrap();
    assert!(engine.release(hold));
    assert!(engine.commit_prepared(b"x").unwrap());
    let hold = engine.hold(Duration::from_millis(200)).unwrap();
    assert!(engine.release(hold));
}
