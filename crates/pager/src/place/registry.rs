//! Places by scheme, one set a process: connections and credentials are the process's.

use super::Place;
use crate::error::PageErrorKind;
use std::path::Path;
use std::sync::{Arc, RwLock};

/// Finds the place of a URL. Called for each file, so it keeps its servers.
pub type Finder = Arc<dyn Fn(&str) -> Result<Arc<dyn Place>, PageErrorKind> + Send + Sync>;

static PLACES: RwLock<Vec<(String, Finder)>> = RwLock::new(Vec::new());

/// The scheme of a path, as `https` of `https://host/name`. `None` for a local path.
pub fn scheme(path: &Path) -> Option<&str> {
    let (scheme, _) = path.to_str()?.split_once("://")?;
    let mut bytes = scheme.bytes();
    let sound = bytes.next().is_some_and(|b| b.is_ascii_alphabetic())
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'-' | b'.'));
    sound.then_some(scheme)
}

/// Whether a path names a file in a place with a scheme.
pub fn is_remote(path: &Path) -> bool {
    scheme(path).is_some()
}

/// A name for logs: of an address without user, password and query, which may be secrets; other texts as they are.
pub fn shown(name: String) -> String {
    let Some((scheme, rest)) = name.split_once("://") else { return name };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, path) = rest.split_at(end);
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    match path.split_once('?') {
        Some((path, _)) => format!("{scheme}://{host}{path}?..."),
        None => format!("{scheme}://{host}{path}"),
    }
}

/// Sets the place of a scheme. A later call replaces an earlier one.
pub fn register(scheme: &str, finder: Finder) {
    let mut places = PLACES.write().unwrap_or_else(|e| e.into_inner());
    places.retain(|(known, _)| known != scheme);
    places.push((scheme.to_owned(), finder));
}

/// The place of a path; `None` for the local file system.
///
/// # Errors
/// [`PageErrorKind::Unsupported`] for an unknown scheme, and the place's own error for a bad address.
pub fn of(path: &Path) -> Result<Option<Arc<dyn Place>>, PageErrorKind> {
    let Some(scheme) = scheme(path) else { return Ok(None) };
    let places = PLACES.read().unwrap_or_else(|e| e.into_inner());
    let Some((_, finder)) = places.iter().find(|(known, _)| known.eq_ignore_ascii_case(scheme)) else {
        let known: Vec<String> = places.iter().map(|(known, _)| format!("{known}://")).collect();
        let message = format!("no place has the scheme {scheme}://; there are: {}", known.join(", "));
        return Err(PageErrorKind::Unsupported(message));
    };
    let finder = finder.clone();
    drop(places);
    finder(path.to_str().unwrap_or_default()).map(Some)
}
