//! The client: each server is a [`Place`](pager::place::Place).
//!
//! *Theory.* A read goes out at once on the connection with the least under way. Its bytes go from the socket into the
//! pager's frame, and their checksum is computed there. How much is under way follows from what is measured: three
//! times the rate times the shortest round trip. A connection that fails gives its reads to another one. So a read ends
//! with its bytes, with an error of the data, or after the network timeout.
//!
//! *Practice.* One set of connections for each server, with a thread for each connection that only receives.
//!
//! | module | for |
//! |---|---|
//! | `address`, `credentials` | which server, and how it is believed |
//! | `registry` | the places of addresses: one server, or several |
//! | `place` | one server's seam to the pager, and the table of servers |
//! | `several` | several servers as one place |
//! | `staging` | files that are brought to a server |
//! | `ask` | one read or question until it is answered |
//! | `hub` | the connections of a server, and what waits for them |
//! | `link`, `files`, `stream`, `receive` | one connection: requests out, numbers of files, bytes in, replies |
//! | [`rendezvous`] | homes of files among several servers |
//! | `traffic` | round trips, rates, the window |
//! | `keeper` | clocks: silence, retries, deadlines |

mod address;
mod ask;
mod connect;
mod credentials;
mod files;
mod hub;
mod keeper;
mod link;
mod options;
mod place;
mod receive;
mod registry;
pub mod rendezvous;
mod several;
mod staging;
mod stream;
mod traffic;

pub use credentials::{set_credentials, Credentials};
pub use options::ClientOptions;
pub use place::RemotePlace;
pub(crate) use registry::place_of;
pub use registry::{register, SCHEMES};
pub use several::SeveralServers;
pub(crate) use staging::{StagedChunk, StagingRefusal};
