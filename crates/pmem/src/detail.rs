//! The one make of errors: what the `Error` of every crate carries, and the type each crate
//! declares over it.
//!
//! An error is one pointer, so that a `Result` stays as small as what it returns; what it points to
//! is built on cold paths only. Each crate adds its own kinds and, where it stands on another
//! crate, the conversion of that crate's errors.

use std::error::Error;
use std::sync::Arc;

/// Content of an error: the kind `K`, the message, and the place of the fault.
///
/// Users read it through the methods of the crate's `Error`.
#[derive(Clone, Debug)]
pub struct Detail<K> {
    /// Remedy that the caller must take.
    pub kind: K,
    /// Names the thing and the remedy. Complete without the messages of the sources.
    pub message: String,
    /// The file or directory, if there is one.
    pub file: Option<String>,
    /// Offset of the fault within the file, in bytes.
    pub offset: Option<u64>,
    /// Number of the index of the table, if the error is about one.
    pub index: Option<u32>,
    /// The error that caused this one.
    pub source: Option<Arc<dyn Error + Send + Sync>>,
}

/// Declares a crate's `Error` over the given kind: one pointer to a [`Detail`], made and read as in
/// every other crate.
///
/// The module that invokes it can build an `Error` from a `Box<Detail<_>>`, as its conversions from
/// the errors of lower crates do with what `pass_on` returns.
#[macro_export]
macro_rules! error_type {
    ($kind:ident) => {
        /// An error: its kind, a message that names the thing and the remedy, and where the fault
        /// was met.
        ///
        /// Displays the message, which is complete without those of the sources.
        #[derive(Clone)]
        pub struct Error(Box<$crate::Detail<$kind>>);

        impl Error {
            /// Makes an error whose message names the thing and the remedy.
            #[cold]
            pub fn new(kind: $kind, message: impl Into<String>) -> Error {
                let message = message.into();
                Error(Box::new($crate::Detail { kind, message, file: None, offset: None, index: None, source: None }))
            }

            /// Adds the file or directory concerned.
            pub fn in_file(mut self, file: impl Into<String>) -> Error {
                self.0.file = Some(file.into());
                self
            }

            /// Adds the offset of the fault within the file, in bytes.
            pub fn at(mut self, offset: u64) -> Error {
                self.0.offset = Some(offset);
                self
            }

            /// Adds the error that caused this one.
            pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Error {
                self.0.source = Some(std::sync::Arc::new(source));
                self
            }

            /// Passes the error on to a higher layer under a kind of that layer: same message and
            /// place, with this error as the source.
            #[cold]
            pub fn pass_on<K>(self, kind: K) -> Box<$crate::Detail<K>> {
                let $crate::Detail { message, file, offset, index, .. } = (*self.0).clone();
                let source = Some(std::sync::Arc::new(self) as _);
                Box::new($crate::Detail { kind, message, file, offset, index, source })
            }

            /// Remedy that the caller must take.
            pub fn kind(&self) -> $kind {
                self.0.kind
            }

            /// The file or directory concerned, if there is one.
            pub fn file(&self) -> Option<&str> {
                self.0.file.as_deref()
            }

            /// Offset of the fault within [`Error::file`], in bytes, where it is known.
            pub fn offset(&self) -> Option<u64> {
                self.0.offset
            }
        }

        impl std::fmt::Debug for Error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl std::fmt::Display for Error {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0.message)
            }
        }

        impl std::error::Error for Error {
            fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
                match &self.0.source {
                    Some(source) => Some(&**source),
                    None => None,
                }
            }
        }
    };
}
