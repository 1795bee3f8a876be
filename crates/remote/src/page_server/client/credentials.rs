//! Credentials: the token for a server, and the reason to believe it.

use super::super::secure::{Fingerprint, Token, Trust};
use super::address::ServerAddress;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// For one server.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// Shown to it.
    pub token: Option<Token>,
    /// What makes it believed. `None`: as [`Trust::System`], and no TLS to this machine.
    pub trust: Option<Trust>,
}

static KNOWN: Mutex<Option<HashMap<String, Credentials>>> = Mutex::new(None);

/// Sets the credentials of a server, as `host:port`, for the connections that follow.
pub fn set_credentials(server: &str, credentials: Credentials) {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.get_or_insert_default().insert(server.to_ascii_lowercase(), credentials);
}

/// The credentials for a server: those that were set, else those of the environment.
///
/// # Errors
/// When the environment has something else than a token or a fingerprint.
pub(super) fn credentials_for(server: &ServerAddress) -> Result<Credentials, String> {
    let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(credentials) = known.as_ref().and_then(|known| known.get(&server.to_string())) {
        return Ok(credentials.clone());
    }
    let read = |name: &str| std::env::var(name).ok().filter(|text| !text.trim().is_empty());
    // The text itself stays out of messages.
    let wrong = |name: &str| format!("{name} is set, but not to 64 hexadecimal digits");
    let wrong_pin =
        || format!("{}; fingerprints of several servers stand between commas", wrong("FARFIELD_SERVER_PIN"));
    let token = read("FARFIELD_TOKEN").map(|text| Token::parse(&text).ok_or_else(|| wrong("FARFIELD_TOKEN")));
    let pins = read("FARFIELD_SERVER_PIN").map(|text| {
        let pins: Option<Vec<Fingerprint>> = text.split(',').map(|pin| Fingerprint::parse(pin.trim())).collect();
        pins.ok_or_else(wrong_pin)
    });
    Ok(Credentials { token: token.transpose()?, trust: pins.transpose()?.map(Trust::PinnedToAny) })
}
