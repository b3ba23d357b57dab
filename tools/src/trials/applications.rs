//! Test suites of libraries that applications stand on, run on a server with every table in one
//! engine: once InnoDB, once Perdura.
//!
//! Hazard: an application that runs on InnoDB fails on Perdura. A library's tests say what its
//! users rely on, and nobody here has written them. A test counts as failed if it fails with
//! Perdura and not with InnoDB.
//!
//! From the bottom up: `environment` a library and its suite from PyPI, `results` what a run tells,
//! `suite` the server and the two runs; `django` and `sqlalchemy` one suite each.

pub mod django;
mod environment;
mod results;
pub mod sqlalchemy;
mod suite;
