//! Access control: users, their passwords and their rights, which the whole cluster shares.
//!
//! Users are kept beside the keys and in the same log. Whoever asks for rights reads them into an
//! `Acl`, which tells by a number whether it is still what is stored. All fails closed: before
//! they are read nobody has rights, and who cannot be read has none.
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
