//! Addresses of several servers: `farfield://a,b:7208,c/name`.

use super::super::address::ServerAddress;

/// Most servers of one address: a read keeps a bit for each.
const MOST: usize = 64;

/// The servers of a URL that names several; `None`: it names one.
///
/// # Errors
/// What is wrong with an address.
pub(in super::super) fn servers_of(url: &str) -> Result<Option<Vec<ServerAddress>>, String> {
    let Some((scheme, rest)) = url.split_once("://") else { return Ok(None) };
    let hosts = rest.split('/').next().unwrap_or_default();
    // The part before it may be a secret, which the address of one server refuses.
    if !hosts.contains(',') || hosts.contains('@') {
        return Ok(None);
    }
    let mut servers = Vec::new();
    for host in hosts.split(',') {
        if host.is_empty() {
            return Err(format!("{url}: a name of a server is missing beside a comma"));
        }
        let server = ServerAddress::of(&format!("{scheme}://{host}"))?;
        if servers.contains(&server) {
            return Err(format!("{url} names {server} twice"));
        }
        servers.push(server);
    }
    if servers.len() > MOST {
        return Err(format!("{url} names {} servers, more than {MOST}", servers.len()));
    }
    Ok(Some(servers))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_stand_between_commas() {
        let of = |url| servers_of(url).map(|found| found.map(|all| all.iter().map(ToString::to_string).collect()));
        let names = |names: &[&str]| Ok(Some(names.iter().map(ToString::to_string).collect::<Vec<_>>()));
        assert_eq!(of("farfield://a,B:7208,[::1]:9/x,y"), names(&["a:7207", "b:7208", "[::1]:9"]));
        assert_eq!(of("farfield://a/x,y"), Ok(None));
        assert_eq!(of("farfield://me:se,cret@h/a"), Ok(None));
        for (url, said) in [
            ("farfield://a,,b/x", "beside a comma"),
            ("farfield://a,a:7207/x", "a:7207 twice"),
            ("farfield://a,b:x/x", "no port"),
            ("farfield+tcp://localhost,10.0.0.1/x", "this machine only"),
        ] {
            let error = of(url).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
