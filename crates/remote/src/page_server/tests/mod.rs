//! Server and client together, over loopback.

mod faults;
mod proxy;
mod raw;
mod security;
mod serving;
mod several;
mod sharing;
mod support;
mod urgency;
