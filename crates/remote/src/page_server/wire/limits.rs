//! Constants of the protocol.

/// The name of the protocol in TLS.
pub const ALPN: &[u8] = b"farfield/1";
/// The version of the protocol.
pub const VERSION: u16 = 1;
/// The longest body of a request.
pub const MOST_REQUEST_BODY: usize = 64 << 10;
/// The most bytes of a file in one STAGE_PUT.
pub const MOST_STAGED: usize = 256 << 10;
/// The longest body of STAGE_PUT, from a client that may stage.
pub const MOST_STAGE_BODY: usize = MOST_STAGED + MOST_NAME + 64;
/// The longest reply to READ, READV and VIA.
pub const MOST_READ: usize = 8 << 20;
/// The longest reply to any other operation.
pub const MOST_TOLD: usize = 16 << 20;
/// The longest name of a file.
pub const MOST_NAME: usize = 4096;
/// The port where none is named.
pub const DEFAULT_PORT: u16 = 7207;
