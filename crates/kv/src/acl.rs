//! Access control: users, their passwords and their rights, which the whole cluster shares.
//!
//! Users are kept beside the keys and in the same log. A check of rights works on an `Acl` read
//! from there, whose version number tells whether it is still current. Access fails closed: until
//! the users are read nobody has rights, and a user whose record cannot be read has none.
//!
//! ```text
//! 0x01 'u' name   the record of a user (`record`)
//! 0x01 'v'        the index of the entry that has changed a user last (8)
//! ```
//!
//! There are `USERS_MAX` users of `RULES_BYTES_MAX` of rules each at most. Passwords are kept
//! as their SHA-256, as Redis does. Not here, though Redis has them: selectors. Channels are kept,
//! but there are no commands on them.

mod patterns;
mod record;
mod rights;
mod stored;
mod user;

pub(crate) use patterns::has_spaces;
pub use record::{from_bytes as user_from_bytes, to_bytes as user_to_bytes};
pub(crate) use rights::{Denied, may};
pub(crate) use stored::{Acl, Found, RULES_BYTES_MAX, USERS_MAX, count_in, delete_user, put_user, user_in};
pub(crate) use user::CATEGORIES;
pub use user::User;
