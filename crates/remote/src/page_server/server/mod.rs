//! The server: named folders and files, for many clients, in bounded memory.
//!
//! *Theory.* A few event loops hold all sockets, so a connection costs its buffers and no thread. Requests wait in one
//! schedule, which decides by client and urgency; a reply waits in the kernel only for its last 128 KiB. Bytes come
//! from the page cache on the loop's own thread, else from a disk by a reader. All buffers count against one limit.
//! When it is reached requests wait, and clients are granted less.
//!
//! *Practice.* A request passes through these modules in order:
//!
//! | module | for |
//! |---|---|
//! | `event_loop` | sockets and clocks |
//! | `connection` | bytes of one connection, TLS |
//! | `dispatch` | operations |
//! | `schedule`, `bucket` | whose request is next, rates |
//! | `answer`, `files`, `names` | bytes of files, and nothing outside of what is served |
//! | `staging` | files that clients bring |
//! | `origin`, `origin_requests`, `memory_cache` | files of slower places, kept in memory |
//! | `readers` | threads that wait for disks |
//! | `clients` | tokens, limits of connections |
//! | `counts`, `status` | what was done |

mod answer;
mod bucket;
mod clients;
mod connection;
mod counts;
mod dispatch;
mod event_loop;
mod files;
mod mailbox;
mod memory_cache;
mod names;
mod origin;
mod origin_requests;
mod readers;
mod schedule;
mod shared;
mod socket;
mod staging;
mod start;
mod status;

pub use memory_cache::HostMemory;
pub use origin::OriginOptions;
pub use shared::Patience;
pub use start::{Server, ServerError, ServerOptions};
