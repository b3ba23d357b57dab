//! Resources of the server at a moment: private memory, files, and the part of them that is in use.

use anyhow::Result;
use mysql::Conn;

use super::super::files;
use super::super::report::Report;
use super::super::systems::System;
use crate::drive::server::Server;
use crate::shared::{client, process};

/// The metrics, with what each is of.
pub const METRICS: [(&str, &str); 3] = [(DRAM, "DRAM"), (FILES, "files"), (USED, "space in use")];

const DRAM: &str = "dram_mib";
const FILES: &str = "files_mib";
const USED: &str = "used_mib";
const MIB: f64 = (1 << 20) as f64;
/// Perdura's segments that are not free.
const IN_USE: &str =
    "SELECT data_length FROM information_schema.tables WHERE table_schema = 'test' AND table_name = 'soak'";

/// Takes samples of one server.
pub struct Sampler<'server> {
    server: &'server Server,
    system: System,
    connection: Conn,
}

impl<'server> Sampler<'server> {
    /// A sampler with a session of its own.
    pub fn new(server: &'server Server, system: System) -> Result<Self> {
        Ok(Self { server, system, connection: server.connect()? })
    }

    /// Adds a value of each metric to the report.
    pub fn add(&mut self, part: &str, report: &mut Report) -> Result<()> {
        let mut add = |metric, bytes: u64| report.add(self.system.name(), part, metric, "MiB", bytes as f64 / MIB);
        // RssAnon: mapped files, and so the pool, are not counted.
        add(DRAM, process::status_bytes(self.server.pid(), "RssAnon")?);
        let directory = self.server.directory();
        let bytes = match self.system {
            System::Perdura => files::lengths(&directory.join("pool"), |_| true)?,
            _ => {
                let shared = |name: &str| name.starts_with("ibdata") || name.starts_with("undo");
                let own = files::lengths(&directory.join("data/test"), |_| true)?;
                files::lengths(&directory.join("data"), shared)? + own
            }
        };
        add(FILES, bytes);
        if self.system == System::Perdura {
            add(USED, client::value(&mut self.connection, IN_USE)?);
        }
        Ok(())
    }
}
