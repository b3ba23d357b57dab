//! Room *txn*: a session and its transactions.
//!
//! It owns snapshots as a session holds them, reading and scanning, writing under row locks, savepoints, and how a transaction ends:
//! commit, prepare, rollback. It stands on `pool` and `changes`. It keeps (I1): a commit is acknowledged when it and all before it are
//! durable and visible; (I4): nothing is published before that; (I5): what takes a CSN fills it; and (I3) at the end of
//! each statement, after which another thread may go on.

mod catch_up;
mod commit;
pub mod isolation;
mod lock;
pub mod read;
pub mod reader;
pub mod session;
mod snapshots;
mod write;
