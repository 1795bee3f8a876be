//! The page server and its client: `farfield://host[:port]/name/path`.
//!
//! *Theory.* Remote demand paging over one protocol of its own (Ellsworth 2001): reads in any order on few connections,
//! demand before prefetch, and versions in every reply. The server decides what goes first, for all its clients; the
//! client decides how much is under way.
//!
//! *Practice.*
//!
//! | module | for |
//! |---|---|
//! | `wire` | the protocol: heads of 32 bytes |
//! | `secure` | tokens, certificates, whom a client believes |
//! | `server` | names, fair use, bounded memory |
//! | `client` | a [`Place`](pager::place::Place) for each server |

pub mod client;
pub mod secure;
pub mod server;
pub mod wire;

#[cfg(test)]
mod tests;
