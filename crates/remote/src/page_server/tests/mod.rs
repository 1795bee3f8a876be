//! Server and client together, over loopback.

mod faults;
mod indexed;
mod proxy;
mod raw;
mod security;
mod serving;
mod several;
mod sharing;
mod staging;
mod support;
mod urgency;
