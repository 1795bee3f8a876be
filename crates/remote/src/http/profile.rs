//! Profiles of Amazon's tools: static keys, region and endpoint from `~/.aws/credentials` and `~/.aws/config`.

use super::credentials::variable;
use pager::error::PageErrorKind;
use std::collections::HashMap;
use std::path::PathBuf;

/// A larger file is no settings.
const MOST_BYTES: u64 = 1 << 20;

/// A profile. It holds secrets, so it has no `Debug`.
#[derive(Default)]
pub(super) struct Profile {
    pub name: String,
    /// `AWS_PROFILE` names it.
    pub named: bool,
    pub access_key_id: Option<String>,
    pub secret_access_key: Option<String>,
    pub session_token: Option<String>,
    pub region: Option<String>,
    pub endpoint_url: Option<String>,
    /// The way to other credentials that it names.
    pub other_source: Option<&'static str>,
}

type Settings = HashMap<String, String>;

impl Profile {
    /// Reads the profile that the environment names, else `default`.
    ///
    /// # Errors
    /// [`PageErrorKind::Unsupported`] if the environment names a profile that does not exist.
    pub(super) fn read() -> Result<Self, PageErrorKind> {
        let file = |name: &str, usual: &str| {
            let path = variable(name).map(PathBuf::from).or_else(|| Some(PathBuf::from(variable("HOME")?).join(usual)));
            let path = path.filter(|path| std::fs::metadata(path).is_ok_and(|m| m.is_file() && m.len() <= MOST_BYTES));
            path.and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
        };
        let named = variable("AWS_PROFILE").or_else(|| variable("AWS_DEFAULT_PROFILE"));
        let credentials = file("AWS_SHARED_CREDENTIALS_FILE", ".aws/credentials");
        Self::parse(named, &credentials, &file("AWS_CONFIG_FILE", ".aws/config"))
    }

    fn parse(named: Option<String>, credentials: &str, config: &str) -> Result<Self, PageErrorKind> {
        let name = named.clone().unwrap_or_else(|| "default".into());
        let in_config = if name == "default" { name.clone() } else { format!("profile {name}") };
        let (keys, settings) = (section(credentials, &name), section(config, &in_config));
        if named.is_some() && keys.is_none() && settings.is_none() {
            return Err(PageErrorKind::Unsupported(format!(
                "AWS_PROFILE is {name}, which is in neither ~/.aws/credentials nor ~/.aws/config"
            )));
        }
        let (mut keys, mut settings) = (keys.unwrap_or_default(), settings.unwrap_or_default());
        let services = settings.remove("services").and_then(|name| section(config, &format!("services {name}")));
        let mut either = |name: &str| keys.remove(name).or_else(|| settings.remove(name)).filter(|v| !v.is_empty());
        let endpoint = services.and_then(|mut services| services.remove("s3.endpoint_url"));
        let other = [
            ("credential_process", "a program"),
            ("sso_session", "single sign-on"),
            ("sso_start_url", "single sign-on"),
            ("role_arn", "a role"),
        ];
        Ok(Self {
            named: named.is_some(),
            access_key_id: either("aws_access_key_id"),
            secret_access_key: either("aws_secret_access_key"),
            session_token: either("aws_session_token"),
            region: either("region"),
            endpoint_url: endpoint.or_else(|| either("endpoint_url")),
            other_source: other.into_iter().find(|(key, _)| either(key).is_some()).map(|(_, source)| source),
            name,
        })
    }
}

/// The settings of a section. Those below an indented heading, as `s3 =`, get its name before theirs.
fn section(text: &str, name: &str) -> Option<Settings> {
    let mut found: Option<Settings> = None;
    let (mut inside, mut heading) = (false, String::new());
    for line in text.lines() {
        let content = line.trim();
        if content.is_empty() || content.starts_with(['#', ';']) {
            continue;
        }
        if let Some(title) = content.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            inside = title.0.split_whitespace().eq(name.split_whitespace());
            if inside {
                found.get_or_insert_default();
            }
            continue;
        }
        let Some(settings) = found.as_mut().filter(|_| inside) else { continue };
        let Some((key, value)) = content.split_once('=') else { continue };
        let (key, value) = (key.trim().to_ascii_lowercase(), value.trim());
        let value = value.split_once(" #").map_or(value, |(value, _)| value.trim_end());
        if line.starts_with([' ', '\t']) && !heading.is_empty() {
            settings.insert(format!("{heading}.{key}"), value.into());
        } else if value.is_empty() {
            heading = key;
        } else {
            heading.clear();
            settings.insert(key, value.into());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &str = "[default]\naws_access_key_id = A\naws_secret_access_key=B\n\n[lab]\naws_access_key_id=C\n\
                        aws_secret_access_key=D # theirs\naws_session_token=E\n";
    const CONFIG: &str = "[default]\nregion = eu-west-1\ns3 =\n  endpoint_url = http://no\n[profile lab]\nregion=x-1\n\
                          endpoint_url = http://lab:9000\n[profile sso]\nsso_session = s\n[profile own]\nservices = v\n\
                          [services v]\ns3 =\n  endpoint_url = http://v:1\n";

    #[test]
    fn profiles_are_those_of_the_tools() {
        let profile = |name: Option<&str>| Profile::parse(name.map(str::to_owned), KEYS, CONFIG);
        let default = profile(None).unwrap();
        assert_eq!((default.access_key_id.as_deref(), default.secret_access_key.as_deref()), (Some("A"), Some("B")));
        assert_eq!((default.region.as_deref(), default.endpoint_url, default.named), (Some("eu-west-1"), None, false));
        let lab = profile(Some("lab")).unwrap();
        assert_eq!((lab.secret_access_key.as_deref(), lab.session_token.as_deref()), (Some("D"), Some("E")));
        assert_eq!((lab.region.as_deref(), lab.endpoint_url.as_deref()), (Some("x-1"), Some("http://lab:9000")));
        assert_eq!(profile(Some("sso")).unwrap().other_source, Some("single sign-on"));
        assert_eq!(profile(Some("own")).unwrap().endpoint_url.as_deref(), Some("http://v:1"));
        assert!(profile(Some("none")).is_err());
    }
}
