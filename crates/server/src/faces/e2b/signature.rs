//! Signatures of URLs to files, by which whoever has the URL may read or write that one file.

use std::time::{SystemTime, UNIX_EPOCH};

use base64::Engine;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

/// What a URL allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operation {
    Read,
    Write,
}

/// What is signed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Signed<'a> {
    pub path: &'a str,
    pub operation: Operation,
    pub user: &'a str,
    /// When the URL ends, in seconds since 1970, as the URL has it.
    pub expiration: Option<u64>,
}

impl Signed<'_> {
    /// What is to be compared with tokens, which come last: the rest is hashed once.
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

    /// Whether a signature was made by the holder of the token.
    pub(super) fn is_made_by(&self, token: &str, signature: &str) -> bool {
        self.prepared().is_made_by(token, signature)
    }

    /// Whether it is too late.
    pub(super) fn is_over(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        self.expiration.is_some_and(|end| end < now)
    }
}

/// All that is signed, but the token.
pub(super) struct Prepared {
    hash: Sha256,
    end: String,
}

impl Prepared {
    /// The signature that the holder of the token makes.
    fn signature(&self, token: &str) -> String {
        let hash = self.hash.clone().chain_update(token).chain_update(&self.end);
        format!("v1_{}", STANDARD_NO_PAD.encode(hash.finalize()))
    }

    /// Whether a signature was made by the holder of the token.
    pub(super) fn is_made_by(&self, token: &str, signature: &str) -> bool {
        self.signature(token).as_bytes().ct_eq(signature.as_bytes()).into()
    }
}

#[cfg(test)]
mod tests {
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
        assert!(signed("a", Operation::Read, Some(1)).is_over());
        assert!(!signed("a", Operation::Read, None).is_over());
        assert!(!signed("a", Operation::Read, Some(u64::MAX)).is_over());
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
