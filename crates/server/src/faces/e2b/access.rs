//! Authorisation of access to a sandbox: access tokens, and signatures of URLs.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use data_encoding::HEXLOWER;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::address::ID_LENGTH;

/// Derives tokens from sandbox ids with a secret.
pub(super) struct Tokens(Hmac<Sha256>);

impl Default for Tokens {
    fn default() -> Self {
        let mut secret = [0; 64];
        // Guessable tokens would give access to every sandbox.
        assert!(getrandom::fill(&mut secret).is_ok(), "cannot get random numbers from the system");
        Self::of_secret(secret)
    }
}

impl Tokens {
    /// Uses a given secret, so that all servers that share it derive the same tokens.
    pub(super) fn of_secret(secret: [u8; 64]) -> Self {
        Self(Hmac::new(&secret.into()))
    }

    /// The access token of a sandbox: its id followed by a MAC.
    pub(super) fn of(&self, id: &str) -> String {
        let mut mac = self.0.clone();
        mac.update(id.as_bytes());
        format!("{id}{}", HEXLOWER.encode(&mac.finalize().into_bytes()))
    }

    /// The token for the code interpreter alone. It gives no access to files.
    pub(super) fn of_traffic(&self, id: &str) -> String {
        let mut mac = self.0.clone();
        mac.update(b"traffic\n");
        mac.update(id.as_bytes());
        HEXLOWER.encode(&mac.finalize().into_bytes())
    }

    /// Returns the sandbox id in an access token, or `None` if the token is invalid.
    pub(super) fn id_in<'a>(&self, token: &'a str) -> Option<&'a str> {
        let (id, _) = token.split_at_checked(ID_LENGTH)?;
        let is_it: bool = self.of(id).as_bytes().ct_eq(token.as_bytes()).into();
        is_it.then_some(id)
    }
}

/// The operation that a signed URL allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
}

/// The signed parts of a URL.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signed<'a> {
    pub path: &'a str,
    pub operation: Operation,
    pub user: &'a str,
    /// Expiry of the URL in seconds since 1970, as written in the URL.
    pub expiration: Option<u64>,
}

impl Signed<'_> {
    /// Hashes everything but the token, which comes last, for comparison with many tokens.
    pub(super) fn prepared(&self) -> Prepared {
        let operation = match self.operation {
            Operation::Read => "read",
            Operation::Write => "write",
        };
        let mut hash = Sha256::new();
        for part in [self.path, ":", operation, ":", self.user, ":"] {
            hash.update(part);
        }
        let end = self.expiration.map(|expiration| format!(":{expiration}")).unwrap_or_default();
        Prepared { hash, end }
    }

    /// Whether the signature was made with this token.
    pub(super) fn is_made_by(&self, token: &str, signature: &str) -> bool {
        self.prepared().is_made_by(token, signature)
    }

    /// Whether the signature has expired.
    pub(super) fn is_expired(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.expiration.is_some_and(|end| end < now)
    }
}

/// A hash of all signed parts except the token.
pub(super) struct Prepared {
    hash: Sha256,
    end: String,
}

impl Prepared {
    /// The signature made with this token.
    fn signature(&self, token: &str) -> String {
        let hash = self.hash.clone().chain_update(token).chain_update(&self.end);
        format!("v1_{}", STANDARD_NO_PAD.encode(hash.finalize()))
    }

    /// Whether the signature was made with this token.
    pub(super) fn is_made_by(&self, token: &str, signature: &str) -> bool {
        self.signature(token).as_bytes().ct_eq(signature.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests_of_tokens {
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

#[cfg(test)]
mod tests_of_signature {
    use proptest::prelude::*;

    use super::*;

    fn signed(path: &str, operation: Operation, expiration: Option<u64>) -> Signed<'_> {
        Signed {
            path,
            operation,
            user: "",
            expiration,
        }
    }

    #[test]
    fn it_is_the_one_that_clients_make() {
        // Made by the Python client: get_signature("/home/user/a.txt", "read", None, "tok").
        let made = signed("/home/user/a.txt", Operation::Read, None).prepared().signature("tok");
        assert_eq!(made, "v1_Zkbb3914oLJLvMBzCAHQhm2ydBLxbSx2eQUR/kLdvIY");
        let made = signed("a", Operation::Write, Some(1_700_000_000)).prepared().signature("tok");
        assert_eq!(made, "v1_xYxvCHXei2Y0tKRJBNTIm7Fo56nCBeXErF84FpcvkIQ");
    }

    #[test]
    fn an_end_that_has_passed_is_over() {
        assert!(signed("a", Operation::Read, Some(1)).is_expired());
        assert!(!signed("a", Operation::Read, None).is_expired());
        assert!(!signed("a", Operation::Read, Some(u64::MAX)).is_expired());
    }

    proptest! {
        #[test]
        fn nothing_else_is_taken_for_one(path in ".{0,20}", token in ".{0,20}", forged in ".{0,60}", end in any::<u64>()) {
            let read = signed(&path, Operation::Read, Some(end));
            let made = read.prepared().signature(&token);
            prop_assert!(read.is_made_by(&token, &made));
            let other = format!("{token}x");
            prop_assert!(!read.is_made_by(&other, &made));
            prop_assert!(!signed(&path, Operation::Write, Some(end)).is_made_by(&token, &made));
            prop_assert!(!signed(&path, Operation::Read, None).is_made_by(&token, &made));
            prop_assert!(forged == made || !read.is_made_by(&token, &forged));
        }
    }
}
