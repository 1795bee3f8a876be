//! Tokens, certificates, and their checks.

mod certificate;
mod hex;
mod token;
mod trust;

pub use certificate::{Certificate, CertificateError};
pub use token::{Token, TokenHash, TokenList};
pub use trust::{Fingerprint, Trust};
