//! Server and client together, over loopback.

mod raw;
mod security;
mod serving;
mod support;
