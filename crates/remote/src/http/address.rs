//! Addresses: from the path of a file to the server and the name there. Secrets in URLs (user names, passwords,
//! signatures in queries) go to the server only, never into a message.

use pager::error::PageErrorKind;
use url::Url;

/// The kind of a place.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreKind {
    /// A web server.
    Web,
    /// Amazon S3 and what speaks its protocol.
    S3,
    /// Google Cloud Storage.
    Google,
    /// Azure Blob Storage.
    Azure,
}

/// The kinds, by scheme.
pub(super) const SCHEMES: [(&str, StoreKind); 5] = [
    ("http", StoreKind::Web),
    ("https", StoreKind::Web),
    ("s3", StoreKind::S3),
    ("gs", StoreKind::Google),
    ("az", StoreKind::Azure),
];

/// A parsed path.
#[derive(Clone)]
pub(super) struct Address {
    pub kind: StoreKind,
    /// Scheme, user and host: what a place serves. It may hold secrets.
    pub place: String,
    /// The server's or the bucket's name, for messages.
    pub server: String,
    pub name: Name,
}

/// The name of a file in its place.
#[derive(Clone)]
pub(super) enum Name {
    /// The whole URL.
    Url(Url),
    /// The key in the bucket, without a `/` at either end, and whether there was one at its end.
    Key(object_store::path::Path, bool),
}

impl Name {
    /// Whether it ends in `/`.
    pub(super) fn is_folder(&self) -> bool {
        match self {
            Self::Url(url) => url.path().ends_with('/'),
            Self::Key(_, folder) => *folder,
        }
    }

    /// The part after the last `/`.
    pub(super) fn last(&self) -> &str {
        let path = match self {
            Self::Url(url) => url.path(),
            Self::Key(key, _) => key.as_ref(),
        };
        path.rsplit('/').find(|part| !part.is_empty()).unwrap_or_default()
    }
}

fn wrong(text: &str, why: impl std::fmt::Display) -> PageErrorKind {
    PageErrorKind::Unsupported(format!("{} is not a usable address: {why}", redact(text)))
}

/// Parses the path of a remote file.
///
/// # Errors
/// [`PageErrorKind::Unsupported`] for an address without a server, and for a key that no request can name.
pub(super) fn parse(text: &str) -> Result<Address, PageErrorKind> {
    let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong(text, "it has no scheme"))?;
    let known = SCHEMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(scheme));
    let &(scheme, kind) = known.ok_or_else(|| wrong(text, "its scheme is unknown"))?;
    if kind == StoreKind::Web {
        if rest.starts_with(['/', '?', '#']) {
            return Err(wrong(text, "it names no server"));
        }
        // A file has no fragments: in names `#` is a letter like any other.
        let url = Url::parse(&text.replace('#', "%23")).map_err(|e| wrong(text, e))?;
        let host = url.host_str().ok_or_else(|| wrong(text, "it names no server"))?;
        let port = url.port_or_known_default().unwrap_or(80);
        let server = format!("{scheme}://{host}:{port}");
        let place = format!("{scheme}://{}:{}@{host}:{port}", url.username(), url.password().unwrap_or_default());
        return Ok(Address { kind, place, server, name: Name::Url(url) });
    }
    let (bucket, key) = rest.split_once('/').unwrap_or((rest, ""));
    if bucket.is_empty() || bucket.contains(['?', '#', ' ']) {
        return Err(wrong(text, "it names no bucket"));
    }
    let parsed = object_store::path::Path::parse(key).map_err(|_| wrong(text, "its key has an empty or a dot part"))?;
    let name = Name::Key(parsed, key.is_empty() || key.ends_with('/'));
    let place = format!("{scheme}://{bucket}");
    Ok(Address { kind, server: place.clone(), place, name })
}

/// A URL, or a text with URLs, without users, passwords and queries.
pub(super) fn redact(text: &str) -> String {
    let word = |word: &str| {
        let Some((scheme, rest)) = word.split_once("://") else { return word.to_owned() };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let host = rest[..end].rsplit_once('@').map_or(&rest[..end], |(_, host)| host);
        let path = &rest[end..];
        match path.split_once('?') {
            Some((path, _)) => format!("{scheme}://{host}{path}?..."),
            None => format!("{scheme}://{host}{path}"),
        }
    };
    text.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_stay_out_of_messages() {
        for (text, expected) in [
            ("https://me:pw@h/a?X-Amz-Signature=1 (x)", "https://h/a?... (x)"),
            ("s3://b/k", "s3://b/k"),
            ("for url http://h:8/p#q", "for url http://h:8/p#q"),
            ("http://h?a=b@c", "http://h?..."),
        ] {
            assert_eq!(redact(text), expected);
        }
        let address = parse("https://me:pw@h/a b#1?sig=2").ok().unwrap();
        assert_eq!(address.server, "https://h:443");
        let Name::Url(url) = &address.name else { panic!("a URL") };
        assert_eq!((url.path(), url.query()), ("/a%20b%231", Some("sig=2")));
        assert!(parse("s3:///k").is_err() && parse("s3://b/a//k").is_err());
        let key = parse("s3://b/a b#c?d%e/").ok().unwrap();
        let Name::Key(path, folder) = &key.name else { panic!("a key") };
        assert_eq!((path.as_ref(), *folder), ("a b#c?d%e", true));
    }
}
