//! Server and client together, over loopback.

mod faults;
mod indexed;
mod network_memory;
mod proxy;
mod raw;
mod security;
mod serving;
mod several;
mod sharing;
mod staging;
mod support;
mod urgency;
