//! The places of the schemes of page servers.

use super::address::{PLAIN_SCHEME, SCHEME};
use super::options::ClientOptions;
use super::{place, several};
use pager::place::Place;
use pager::PageErrorKind;
use std::sync::Arc;

/// The schemes of page servers.
pub const SCHEMES: [&str; 2] = [SCHEME, PLAIN_SCHEME];

/// Registers the places `farfield://` and `farfield+tcp://`.
pub fn register(options: ClientOptions) {
    for scheme in SCHEMES {
        pager::place::register(scheme, Arc::new(move |url| place_of(url, options)));
    }
}

/// The place of a URL, which names one server or several. It is made at its first use.
pub(crate) fn place_of(url: &str, options: ClientOptions) -> Result<Arc<dyn Place>, PageErrorKind> {
    match several::servers_of(url).map_err(PageErrorKind::Unsupported)? {
        Some(servers) => several::find(servers, options).map(|place| place as Arc<dyn Place>),
        None => place::find(url, options).map(|place| place as Arc<dyn Place>),
    }
}
