//! Server and client together, over loopback.

mod crowd;
mod crowds;
mod faults;
mod indexed;
mod network_memory;
mod nonsense;
mod proxy;
mod raw;
mod security;
mod serving;
mod several;
mod sharing;
mod staging;
pub(super) mod support;
mod urgency;
