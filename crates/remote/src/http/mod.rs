//! Places behind HTTP: web servers (`http://`, `https://`) and object stores (`s3://`, `gs://`, `az://`).
//!
//! *Theory.* A read is one request for one range. Its reply counts only if it is exactly that range of the pinned version
//! of the file; anything else is an error and never data. A reply of 200 to a range is refused, with one exception: the
//! range begins at the file's first byte, and the file (by its `Content-Length`) is shorter than the range. The whole file
//! is then what the range asks for. This lets an empty file be opened, and small documents on a server without ranges.
//!
//! Versions are ETags, else generations, else times of the last change. A time is weak: two changes within a second
//! look alike. A server that says none of these is compared by size alone.
//!
//! object_store signs the requests of object stores and knows their addresses. Sending, checking, trying again, order
//! and memory are the same for all places, and stand here.
//!
//! *Practice.*
//!
//! | module | for |
//! |---|---|
//! | `address` | paths to servers and names; secrets stay out of messages |
//! | `place` | the seam of the pager; the table of places |
//! | `line` | queues, runners and attempts of a place |
//! | `meter`, `retry` | how many at once; how often again |
//! | `read`, `tail`, `begin`, `look` | one read; the last bytes of a file; its first ones with its state; the state of one name |
//! | `reply`, `status`, `fault` | what replies say, and errors |
//! | `origin`, `client`, `bucket`, `list` | ways to send a request; lists |
//! | `credentials`, `profile` | settings of the clouds' tools |

mod address;
mod begin;
mod bucket;
mod client;
mod credentials;
mod fault;
mod line;
mod list;
mod look;
mod meter;
mod origin;
mod place;
mod profile;
mod read;
mod reply;
mod retry;
mod status;
mod tail;

pub(crate) use place::find;
pub use place::{held_bytes, requests};

/// The schemes of these places.
pub fn schemes() -> impl Iterator<Item = &'static str> {
    address::SCHEMES.iter().map(|(scheme, _)| *scheme)
}
