//! A case that is measured by itself: warehouses, connections, and the form of the transactions.

use perdura_tpcc::Mix;

/// How a transaction comes to the server.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Statement by statement.
    Statements,
    /// As one call of a stored procedure.
    Procedures,
}

/// See the head of this file.
#[derive(Clone, Copy)]
pub struct Case {
    /// Warehouses that are loaded.
    pub warehouses: u32,
    /// Terminals at once.
    pub connections: u32,
    /// How their transactions come to the server.
    pub form: Form,
    /// Weights of the kinds of transactions.
    pub mix: Mix,
}

impl Case {
    /// Its name in reports.
    pub fn name(self) -> String {
        let name = format!("{}w/{}", self.warehouses, self.connections);
        if self.form == Form::Procedures { name + "/procedures" } else { name }
    }
}
