//! Server and client together, over loopback.

mod faults;
mod indexed;
mod network_memory;
mod proxy;
mod raw;
mod security;
mod serving;
mod sharing;
mod staging;
mod support;
mod urgency;
