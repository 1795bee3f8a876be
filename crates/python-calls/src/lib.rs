//! Calls from Python, for any extension: the engine's errors as exceptions ([`to_python`]), progress and Ctrl-C
//! ([`watched`]).

mod errors;
mod watch;

pub use errors::{raise, to_python};
pub use watch::{end_waits_at_signals, watched};
