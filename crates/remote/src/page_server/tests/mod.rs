//! Server and client together, over loopback.

mod crowd;
mod crowds;
mod faults;
mod nonsense;
mod proxy;
mod raw;
mod security;
mod serving;
mod sharing;
pub(super) mod support;
