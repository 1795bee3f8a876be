//! From a name below an origin to an address there, which never leads elsewhere.

/// An address without a slash at its end, and what may follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct OriginAddress {
    base: String,
    /// Whether names are parts of a URL, in which some letters have a meaning.
    web: bool,
    /// Whether a query follows: then it is one file.
    single: bool,
}

impl OriginAddress {
    pub(super) fn new(address: &str) -> Self {
        let scheme = address.split_once("://").map_or("", |(scheme, _)| scheme);
        let web = ["http", "https"].iter().any(|known| known.eq_ignore_ascii_case(scheme));
        let single = web && address.contains('?');
        let base = if single { address } else { address.trim_end_matches('/') };
        Self { base: base.to_owned(), web, single }
    }

    /// The address itself.
    pub(super) fn root(&self) -> &str {
        &self.base
    }

    /// The address of a path below it, whose parts are neither empty nor dots. `None`: there can be none.
    pub(super) fn below(&self, path: &str) -> Option<String> {
        // No file of a dataset has them, and a parser of URLs may drop them: `.\t.` would become `..`.
        if self.single || path.chars().any(char::is_control) {
            return None;
        }
        let mut out = format!("{}/", self.base);
        for c in path.chars() {
            if !self.web || c == '/' || c.is_ascii_alphanumeric() || "-._~!$&'()*+,;=:@".contains(c) {
                out.push(c);
            } else {
                // A percent sign, too: a name is taken literally, so `%2e%2e` is a name of six letters.
                let mut bytes = [0; 4];
                for byte in c.encode_utf8(&mut bytes).bytes() {
                    out.push_str(&format!("%{byte:02X}"));
                }
            }
        }
        Some(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_literal_and_stay_below() {
        let web = OriginAddress::new("https://me:pw@host/a b/");
        assert_eq!(web.root(), "https://me:pw@host/a b");
        for (name, expected) in [
            ("c/0/1", Some("c/0/1")),
            ("a?b#c%2e%2e", Some("a%3Fb%23c%252e%252e")),
            ("..\\..\\x", Some("..%5C..%5Cx")),
            ("é", Some("%C3%A9")),
            (".\t./x", None),
            ("a\nb", None),
        ] {
            let expected = expected.map(|rest| format!("https://me:pw@host/a b/{rest}"));
            assert_eq!(web.below(name), expected, "{name:?}");
            if let Some(address) = web.below(name) {
                let url = url::Url::parse(&address).unwrap();
                assert!(url.path().starts_with("/a%20b/") && url.query().is_none() && url.fragment().is_none());
            }
        }
        let bucket = OriginAddress::new("s3://b/k");
        assert_eq!(bucket.below("a?%#").as_deref(), Some("s3://b/k/a?%#"));
        let signed = OriginAddress::new("https://host/a.nrrd?sig=1/");
        assert_eq!((signed.root(), signed.below("x")), ("https://host/a.nrrd?sig=1/", None));
    }
}
