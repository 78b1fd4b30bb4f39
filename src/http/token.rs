//! Secret words that requests to this program need.

use anyhow::{Context, Result};
use ring::hmac;
use ring::rand::{SecureRandom, SystemRandom};

/// A new token: 128 random bits as hexadecimal digits.
pub fn random() -> Result<String> {
    let mut bytes = [0; 16];
    SystemRandom::new().fill(&mut bytes).ok().context("the system has no random numbers")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// A token in a form that is compared in constant time.
#[derive(Clone, Debug)]
pub struct Token {
    key: hmac::Key,
    tag: hmac::Tag,
}

impl Token {
    /// The form of this token.
    pub fn new(token: &str) -> Result<Token> {
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new());
        let key = key.ok().context("the system has no random numbers")?;
        let tag = hmac::sign(&key, token.as_bytes());
        Ok(Token { key, tag })
    }

    /// Whether this is the token. The time depends only on the length of what is given.
    pub fn is(&self, given: &[u8]) -> bool {
        hmac::verify(&self.key, given, self.tag.as_ref()).is_ok()
    }
}
