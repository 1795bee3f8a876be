//! Addresses: `farfield://host[:port]/name/path`.

use super::super::wire::DEFAULT_PORT;
use std::net::IpAddr;

/// By TLS, except to this machine.
pub(super) const SCHEME: &str = "farfield";
/// Without TLS, to this machine only.
pub(super) const PLAIN_SCHEME: &str = "farfield+tcp";

/// A server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct ServerAddress {
    pub(super) host: String,
    pub(super) port: u16,
    /// Whether its scheme forbids TLS.
    pub(super) plain: bool,
}

impl ServerAddress {
    /// The server of a URL.
    ///
    /// # Errors
    /// What the URL lacks.
    pub(super) fn of(url: &str) -> Result<Self, String> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| format!("{url} is no URL"))?;
        let plain = scheme.eq_ignore_ascii_case(PLAIN_SCHEME);
        let authority = rest.split('/').next().unwrap_or_default();
        if let Some((_, server)) = authority.rsplit_once('@') {
            // The part before it may be a secret.
            return Err(format!("{scheme}://..@{server}: a page server has no user; its token is in FARFIELD_TOKEN"));
        }
        if authority.contains(',') {
            return Err(format!("{scheme}://{authority} names several servers; name one of them"));
        }
        let (host, port) = match authority.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => (host, port.strip_prefix(':')),
            None => authority.rsplit_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let port = match port {
            None => DEFAULT_PORT,
            Some(port) => port.parse().map_err(|_| format!("{url}: {port:?} is no port"))?,
        };
        if host.is_empty() {
            return Err(format!("{url} names no server"));
        }
        let this = Self { host: host.to_ascii_lowercase(), port, plain };
        if plain && !this.is_here() {
            return Err(format!("{url}: {PLAIN_SCHEME}:// is for this machine only; use {SCHEME}://"));
        }
        Ok(this)
    }

    /// Whether it is this machine.
    pub(super) fn is_here(&self) -> bool {
        self.host == "localhost" || self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
    }
}

impl std::fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

/// The served name in a URL, taken literally.
pub(super) fn name_of(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    rest.split_once('/').map_or("", |(_, name)| name).trim_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_servers_and_names() {
        for (url, server, name) in [
            ("farfield://host/a/b", "host:7207", "a/b"),
            ("farfield://Host:80/a/", "host:80", "a"),
            ("farfield://[::1]:9/x y%20", "[::1]:9", "x y%20"),
            ("farfield+tcp://127.0.0.1:1", "127.0.0.1:1", ""),
        ] {
            assert_eq!(ServerAddress::of(url).unwrap().to_string(), server);
            assert_eq!(name_of(url), name);
        }
        for url in
            ["farfield:///a", "farfield://h:x/a", "farfield://me:secret@h/a", "farfield+tcp://10.0.0.1/a", "farfield"]
        {
            let error = ServerAddress::of(url);
            assert!(error.is_err(), "{url}: {error:?}");
        }
    }
}
