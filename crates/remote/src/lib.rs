//! Places over networks. It knows no cells, grids or formats.
//!
//! *Theory.* A place starts reads, and answers in any order ([`pager::place`]). How much is under way follows from
//! measured round trips and rates. Every reply says the version of its file.
//!
//! *Practice.*
//!
//! | module | for |
//! |---|---|
//! | [`disk_cache`](mod@disk_cache) | what was read before, on the local disk |
//! | [`http`] | web servers and object stores |
//! | [`page_server`] | the page server and its client |
//! | [`staging`] | datasets that are brought near, to page servers |
//! | [`net`] | the one thread on which HTTP runs |
//! | [`alias`] | names for folders at servers that were started for them |
//! | [`measure`] | measured reads, for reports about a line |
//! | `caching` | which places have that cache before them |
//! | `options` | deadlines and limits |

pub mod alias;
mod caching;
pub mod disk_cache;
pub mod http;
pub mod measure;
pub mod net;
mod options;
pub mod page_server;
pub mod staging;

pub use caching::{disk_cache, set_disk_cache};
pub use options::{options, set_options, NetworkOptions};

use page_server::client::ClientOptions;
use pager::place;
use std::sync::Arc;

/// The options of page servers that are first used now.
pub(crate) fn client_options() -> ClientOptions {
    ClientOptions { network_timeout: options().network_timeout, ..ClientOptions::default() }
}

/// Registers the places of all schemes of this crate. Connections are made at their first use.
pub fn register() {
    alias::register();
    for scheme in http::schemes() {
        place::register(scheme, Arc::new(|url| http::find(url).map(caching::cached)));
    }
    for scheme in page_server::client::SCHEMES {
        place::register(
            scheme,
            Arc::new(|url| page_server::client::place_of(url, client_options()).map(caching::cached)),
        );
    }
}
