//! Parts that several tests use.
#![allow(dead_code, reason = "each program of tests uses a part")]

pub mod cluster;
pub mod commands;
pub mod lines;
pub mod redis;
pub mod seeds;
pub mod stores;
