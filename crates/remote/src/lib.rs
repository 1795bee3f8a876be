//! Places over networks. It knows no cells, grids or formats.
//!
//! *Theory.* A place starts reads, and answers in any order ([`pager::place`]). How much is under way follows from
//! measured round trips and rates. Every reply says the version of its file.
//!
//! *Practice.*
//!
//! | module | for |
//! |---|---|
//! | [`disk_cache`] | what was read before, on the local disk |
//! | [`http`] | web servers and object stores |
//! | [`page_server`] | the page server and its client |
//! | [`net`] | the one thread on which HTTP runs |
//! | [`alias`] | names for folders at servers that were started for them |
//! | [`disk_cache`] | pages of servers on the local disk |
//! | [`measure`] | measured reads, for reports about a line |
//! | `options` | deadlines and limits |

pub mod alias;
pub mod disk_cache;
pub mod http;
pub mod measure;
pub mod net;
mod options;
pub mod page_server;

pub use options::{options, set_options, NetworkOptions};

use page_server::client::ClientOptions;

/// Registers the places of all schemes of this crate. Connections are made at their first use.
pub fn register() {
    alias::register();
    http::register();
    let network_timeout = options().network_timeout;
    page_server::client::register(ClientOptions { network_timeout, ..ClientOptions::default() });
}
