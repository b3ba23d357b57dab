//! Operators: their requests (`protocol`), and those of them that wait for an outcome (`requests`).

mod protocol;
mod requests;

pub use protocol::{AdminRequest, AdminResponse, Member, State};
pub(super) use requests::{Admin, AdminContext};
