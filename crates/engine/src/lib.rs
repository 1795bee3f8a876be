//! Executor, admission, conversion, outputs, pictures: what a command does, without CPython.

pub mod convert;
pub mod executor;
pub mod output;
pub mod process;
pub mod seeds;
pub mod session;
pub mod trace;
