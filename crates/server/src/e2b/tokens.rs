//! Tokens of sandboxes. Each is made of the sandbox's id, so that one can be told from a wrong one whether
//! or not there is such a sandbox: who has no token learns nothing of an id.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use crate::hex::hex;

/// What tokens are made with.
pub(super) struct Tokens(Hmac<Sha256>);

impl Default for Tokens {
    fn default() -> Self {
        let mut secret = [0; 64];
        // Tokens that somebody could guess would be worse than none.
        assert!(getrandom::fill(&mut secret).is_ok(), "the system gives no random numbers");
        Self(Hmac::new(&secret.into()))
    }
}

impl Tokens {
    /// The token of a sandbox.
    pub(super) fn of(&self, id: &str) -> String {
        let mut mac = self.0.clone();
        mac.update(id.as_bytes());
        hex(&mac.finalize().into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_of_one_id_and_one_server() {
        let tokens = Tokens::default();
        assert_eq!(tokens.of("a"), tokens.of("a"));
        assert_eq!(tokens.of("a").len(), 64);
        assert_ne!(tokens.of("a"), tokens.of("b"));
        assert_ne!(tokens.of("a"), Tokens::default().of("a"));
    }
}
