//! Tokens of sandboxes. Each is made of the sandbox's id, so that one can be told from a wrong one whether
//! or not there is such a sandbox: who has no token learns nothing of an id.

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use subtle::ConstantTimeEq;

use super::address::ID_LENGTH;
use crate::hex::hex;

/// What tokens are made with.
pub(super) struct Tokens(Hmac<Sha256>);

impl Default for Tokens {
    fn default() -> Self {
        let mut secret = [0; 64];
        // Tokens that somebody could guess would be worse than none.
        assert!(getrandom::fill(&mut secret).is_ok(), "the system gives no random numbers");
        Self::of_secret(secret)
    }
}

impl Tokens {
    /// Those that are made with a secret, by whoever has it.
    pub(super) fn of_secret(secret: [u8; 64]) -> Self {
        Self(Hmac::new(&secret.into()))
    }

    /// The token of a sandbox: its id, and what shows that it was made here.
    pub(super) fn of(&self, id: &str) -> String {
        let mut mac = self.0.clone();
        mac.update(id.as_bytes());
        format!("{id}{}", hex(&mac.finalize().into_bytes()))
    }

    /// The token for what a sandbox serves, with which its files cannot be reached.
    pub(super) fn of_traffic(&self, id: &str) -> String {
        let mut mac = self.0.clone();
        mac.update(b"traffic\n");
        mac.update(id.as_bytes());
        hex(&mac.finalize().into_bytes())
    }

    /// The id of the sandbox that a token is of; `None` where it is none.
    pub(super) fn id_in<'a>(&self, token: &'a str) -> Option<&'a str> {
        let (id, _) = token.split_at_checked(ID_LENGTH)?;
        let is_it: bool = self.of(id).as_bytes().ct_eq(token.as_bytes()).into();
        is_it.then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "abcdefghij0123456789";

    #[test]
    fn a_token_is_of_one_id_and_one_server() {
        let tokens = Tokens::default();
        assert_eq!(tokens.of(ID), tokens.of(ID));
        assert_eq!(tokens.of(ID).len(), ID.len() + 64);
        assert_ne!(tokens.of("a"), tokens.of("b"));
        assert_ne!(tokens.of(ID), Tokens::default().of(ID));
        assert_eq!(tokens.of_traffic(ID), tokens.of_traffic(ID));
        assert_ne!(tokens.of_traffic(ID), tokens.of_traffic("a"));
        assert!(!tokens.of(ID).contains(&tokens.of_traffic(ID)));
    }

    #[test]
    fn whoever_has_the_secret_finds_the_id_in_a_token() {
        let token = Tokens::of_secret([7; 64]).of(ID);
        assert_eq!(Tokens::of_secret([7; 64]).id_in(&token), Some(ID));
        let changed = token.replace("abc", "abd");
        for wrong in ["", ID, "ä", &changed, &token[..83], &format!("{token}0")] {
            assert_eq!(Tokens::of_secret([7; 64]).id_in(wrong), None, "{wrong}");
        }
        assert_eq!(Tokens::of_secret([8; 64]).id_in(&token), None);
    }
}
