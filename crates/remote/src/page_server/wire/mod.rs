//! The protocol `farfield/1`, byte by byte.
//!
//! *Theory.* A request is a head of 32 bytes and a short body, a reply a head of 32 bytes and its bytes. Replies come in
//! any order, matched by sequence number. The checksum of a reply covers its request, its head and its bytes: a bit
//! that flips on either way never gives bytes of another place.
//!
//! *Practice.* Integers are little-endian. A length in a head is a claim: nothing is allocated by it. The client numbers
//! the files that it opens, so a read may follow its OPEN without a wait. A number is that of one connection.
//!
//! | module | for |
//! |---|---|
//! | `head` | heads, operations, states of replies |
//! | `body` | names, versions, ranges, credits |
//! | `staging` | files that are brought to a server |
//! | `limits` | longest bodies and names |

mod body;
mod head;
mod limits;
mod staging;
#[cfg(test)]
mod tests;

pub use body::{
    read_entries, read_looks, read_names, read_ranges, write_entries, write_names, write_ranges, Credits, Hello, Range,
    RemoteKind, RemoteStat, Via, ViaFound, FOUND_BYTES, STAT_BYTES,
};
pub(crate) use head::NO_SEQ;
pub use head::{seed, Op, Reply, Request, State, Urgency, WireFault, HEAD};
pub use limits::{
    ALPN, DEFAULT_PORT, MOST_NAME, MOST_READ, MOST_REQUEST_BODY, MOST_STAGED, MOST_STAGE_BODY, MOST_TOLD, VERSION,
};
pub use staging::{
    read_stage_begin, read_stage_commit, read_stage_put, write_stage_begin, write_stage_commit, write_stage_put,
    StageProgress, StageRoom, StagedFile,
};
