//! Deadlines and limits of all connections.

use std::sync::{PoisonError, RwLock};
use std::time::Duration;

/// Connections to a server that any line may have.
pub(crate) const USUAL_CONNECTIONS: usize = 64;
/// Most connections to a server: enough for pages of 32 KiB on a line of 1 Gbit and 50 ms.
const MOST_CONNECTIONS: usize = 256;

/// Deadlines and limits. A place takes those of the time when it is first used.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkOptions {
    /// Time for a connection to be made.
    pub connect: Duration,
    /// Shortest time in which a reply must begin; the deadline is this, or ten times what 99 of 100 replies took.
    pub first_byte: Duration,
    /// Longest time without a byte while a reply is owed.
    pub stall: Duration,
    /// Time for a read without any progress, with all its attempts. A body that arrives has no limit.
    pub network_timeout: Duration,
    /// The longest first wait before another attempt. It doubles from attempt to attempt.
    pub backoff: Duration,
    /// The longest of these waits.
    pub longest_backoff: Duration,
    /// Most connections to a server. Beyond 64 only as many as its line asks for.
    pub connections: usize,
}

impl Default for NetworkOptions {
    /// `FARFIELD_NETWORK_TIMEOUT` (seconds) and `FARFIELD_CONNECTIONS` replace two of them.
    fn default() -> Self {
        let number = |name| std::env::var(name).ok().and_then(|text| text.trim().parse::<f64>().ok());
        let timeout = number("FARFIELD_NETWORK_TIMEOUT").filter(|s| *s > 0.0 && *s < 1e9).unwrap_or(60.0);
        let connections = number("FARFIELD_CONNECTIONS").filter(|n| *n >= 1.0).map_or(MOST_CONNECTIONS, |n| n as usize);
        Self {
            connect: Duration::from_secs(5),
            first_byte: Duration::from_secs(2),
            stall: Duration::from_secs(10),
            network_timeout: Duration::from_secs_f64(timeout),
            backoff: Duration::from_millis(50),
            longest_backoff: Duration::from_secs(5),
            connections: connections.clamp(1, MOST_CONNECTIONS),
        }
    }
}

static OPTIONS: RwLock<Option<NetworkOptions>> = RwLock::new(None);

/// Sets the options of places that are first used from now on.
pub fn set_options(options: NetworkOptions) {
    *OPTIONS.write().unwrap_or_else(PoisonError::into_inner) = Some(options);
}

/// The options of places that are first used now.
pub fn options() -> NetworkOptions {
    OPTIONS.read().unwrap_or_else(PoisonError::into_inner).clone().unwrap_or_default()
}
