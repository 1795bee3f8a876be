//! Server and client together, over loopback.

mod faults;
mod network_memory;
mod proxy;
mod raw;
mod security;
mod serving;
mod sharing;
mod support;
mod urgency;
