//! Several servers as one place: `farfield://a,b,c/name`.
//!
//! *Theory.* Each server reads the data from its own disk, from a common one, or has copies of some files. Rendezvous
//! hashing of the file and its MiB names the home of each part, so the memories of the servers add up. A read goes to
//! the home, unless another server with a copy would answer much sooner. A demanded read that is late is asked of
//! another server, too (a hedge), for at most a twentieth of the requests. Servers that are gone or stand still are
//! passed over: their reads go elsewhere at once.
//!
//! Copies are one file if size and time of change agree. Each server's copy is pinned to its own version.
//!
//! *Practice.* A hedge has memory of its own, since a read's buffers have one writer at a time. Its bytes are copied once
//! the other server has let go of them.
//!
//! | module | for |
//! |---|---|
//! | `address` | servers between commas |
//! | `place` | the seam to the pager, and the table of places |
//! | `engine` | the calls to servers, and the clock |
//! | `attempt` | a read, its attempts, the steps |
//! | `reads` | the reads under way, and the steps that each event asks for |
//! | `extents` | an index with an extent in one round trip |
//! | `member` | one server's latency and health; the choice |
//! | `latency` | when a read is late, and how many hedges may be |
//! | `copies`, `looks`, `lists` | which server has which file |

mod address;
mod attempt;
mod copies;
mod engine;
mod extents;
mod latency;
mod lists;
mod looks;
mod member;
mod place;
mod reads;
#[cfg(test)]
mod tests;

pub(super) use address::servers_of;
pub(super) use place::find;
pub use place::SeveralServers;
