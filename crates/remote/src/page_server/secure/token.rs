//! Tokens: 256 random bits that a client shows in HELLO. The server keeps their SHA-256 only.

use super::hex::{from_hex, to_hex};
use ring::rand::SecureRandom;
use std::sync::{PoisonError, RwLock};
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};

/// A client's secret. It prints as nothing.
#[derive(Clone, PartialEq, Eq)]
pub struct Token([u8; 32]);

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Token(..)")
    }
}

impl Token {
    /// A new one.
    ///
    /// # Errors
    /// When the system gives no random bytes.
    pub fn fresh() -> Result<Self, String> {
        let mut bytes = [0; 32];
        let filled = ring::rand::SystemRandom::new().fill(&mut bytes);
        filled.map(|()| Self(bytes)).map_err(|_| "the system gives no random bytes".to_owned())
    }

    /// From its 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }

    /// Its digits, to hand it to a client.
    pub fn secret(&self) -> String {
        to_hex(&self.0)
    }

    /// Its bytes for HELLO.
    pub(in crate::page_server) fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// What the server keeps of it.
    pub fn hash(&self) -> TokenHash {
        TokenHash::of(&self.0)
    }
}

/// The SHA-256 of a token.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash)]
pub struct TokenHash([u8; 32]);

impl TokenHash {
    pub(in crate::page_server) fn of(token: &[u8; 32]) -> Self {
        let mut out = [0; 32];
        out.copy_from_slice(ring::digest::digest(&ring::digest::SHA256, token).as_ref());
        Self(out)
    }

    /// From 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        from_hex(text).map(Self)
    }

    /// Its digits.
    pub fn digits(&self) -> String {
        to_hex(&self.0)
    }
}

/// The tokens that a server takes, each with a name for its counts.
#[derive(Debug, Default)]
pub struct TokenList(RwLock<Vec<(String, TokenHash)>>);

impl TokenList {
    /// Replaces all of them.
    pub fn set(&self, tokens: Vec<(String, TokenHash)>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = tokens;
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.read().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// The name of a token, compared with all in a time that does not depend on them.
    pub(in crate::page_server) fn name(&self, hash: &TokenHash) -> Option<String> {
        let tokens = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (mut found, mut at) = (Choice::from(0), 0u64);
        for (n, (_, known)) in tokens.iter().enumerate() {
            let same = known.0.ct_eq(&hash.0);
            at.conditional_assign(&(n as u64), same);
            found |= same;
        }
        if !bool::from(found) {
            return None;
        }
        tokens.get(at as usize).map(|(name, _)| name.clone())
    }
}
