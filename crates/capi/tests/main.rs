//! Tests of the C ABI through its interface, linked into one program; those of one file:
//! `cargo test -p perdura-capi --test main NAME::`.

mod c_counters;
mod c_foreign_keys;
mod c_information;
mod c_keys;
mod c_map;
mod c_map_log;
mod c_map_support;
mod c_padded;
mod c_replication;
mod c_semi_consistent;
mod c_sequence;
mod c_tables;
mod c_transactions;
mod definition;
mod examples;
mod map_fuzz;
mod row_codec;
mod support;
