//! Real processes on loopback: what clients were told stays true when replicas are killed, wiped,
//! copied, damaged or foreign.

#![allow(clippy::disallowed_methods, reason = "processes take the time that they take: no seed runs them again")]

#[path = "processes/certificates.rs"]
mod certificates;
#[path = "processes/descriptors.rs"]
mod descriptors;
#[path = "processes/encryption.rs"]
mod encryption;
#[path = "processes/failover.rs"]
mod failover;
#[path = "processes/forwarding.rs"]
mod forwarding;
#[path = "processes/operators.rs"]
mod operators;
#[path = "../../../tools/src/shared/ports.rs"]
mod ports;
#[path = "processes/readme.rs"]
mod readme;
#[path = "processes/recovery.rs"]
mod recovery;
#[path = "processes/refusals.rs"]
mod refusals;
#[path = "processes/replica.rs"]
mod replica;
#[path = "processes/resp.rs"]
mod resp;
#[path = "processes/room.rs"]
mod room;
