//! What a call from Python needs, whichever extension it comes to: the engine's errors as exceptions, progress, Ctrl-C.

mod errors;
mod watch;

pub use errors::{raise, to_python};
pub use watch::watched;
