//! How a call fails inside this crate: with the code it returns, and a message for the person who
//! reads the error.

use crate::message;

/// A failed call.
#[derive(Debug)]
pub struct Failure<C> {
    /// Tells the calling program what it can do about the failure.
    pub code: C,
    /// Tells a person what failed and what to do.
    pub message: String,
    /// The damaged index, by its number in the table, if the failure is about one.
    pub index: Option<u32>,
}

impl<C> Failure<C> {
    /// A failure with `code`.
    #[cold]
    pub fn new(code: C, message: impl Into<String>) -> Failure<C> {
        Failure { code, message: message.into(), index: None }
    }

    /// Keeps the message for the calling thread; the code goes to the caller.
    #[cold]
    pub(crate) fn report(self) -> C {
        message::keep(&self.message, self.index);
        self.code
    }
}
