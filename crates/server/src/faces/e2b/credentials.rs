//! Identifies the sandbox of a request and its credentials, for the front. The account's worker
//! checks what a credential allows.

use axum::http::{HeaderMap, Uri};
use form_urlencoded::parse;
use subtle::ConstantTimeEq;

use super::access::{Operation, Signed, Tokens};
use super::address::Address;

/// Maximum length of a signed path, in bytes.
const MAX_SIGNED: usize = 4 << 10;

/// The sandbox id in the headers or host name of a request. Such requests are E2B's, whatever their
/// path.
pub(crate) fn addressed(headers: &HeaderMap, uri: &Uri) -> Option<String> {
    Address::of(headers, uri).map(|address| address.sandbox)
}

/// The access token of a request.
pub(crate) fn token(headers: &HeaderMap) -> Option<&str> {
    text(headers, "x-access-token")
}

/// Whether a URL has a signature.
pub(crate) fn has_signature(uri: &Uri) -> bool {
    let query = uri.query().filter(|_| uri.path() == "/files").unwrap_or_default();
    parse(query.as_bytes()).any(|(key, _)| key == "signature")
}

/// Checks credentials of an account's sandboxes.
pub(crate) struct Credentials(Tokens);

impl Credentials {
    pub(crate) fn of_secret(secret: [u8; 64]) -> Self {
        Self(Tokens::of_secret(secret))
    }

    /// Whether this is a sandbox's access token.
    pub(crate) fn is_token(&self, token: &str) -> bool {
        self.0.id_in(token).is_some()
    }

    /// Whether a request has a token of the sandbox, or a signature made with it.
    pub(crate) fn are_shown(&self, id: &str, headers: &HeaderMap, uri: &Uri) -> bool {
        if token(headers).is_some_and(|token| self.0.id_in(token) == Some(id)) {
            return true;
        }
        if let Some(shown) = text(headers, "e2b-traffic-access-token")
            && self.0.of_traffic(id).as_bytes().ct_eq(shown.as_bytes()).into()
        {
            return true;
        }
        self.signed(id, uri)
    }

    /// Whether a URL has a signature that was made with the sandbox's token.
    pub(crate) fn signed(&self, id: &str, uri: &Uri) -> bool {
        let query = uri.query().unwrap_or_default().as_bytes();
        let asked = |name: &str| {
            let value = parse(query).find(|(key, _)| key == name).map(|(_, value)| value);
            value.filter(|value| value.len() <= MAX_SIGNED)
        };
        let Some(signature) = asked("signature") else {
            return false;
        };
        let (path, user) = (asked("path"), asked("username"));
        let expiration = asked("signature_expiration").and_then(|end| end.parse().ok());
        [Operation::Read, Operation::Write].into_iter().any(|operation| {
            let signed = Signed {
                path: path.as_deref().unwrap_or_default(),
                operation,
                user: user.as_deref().unwrap_or_default(),
                expiration,
            };
            signed.is_made_by(&self.0.of(id), &signature)
        })
    }
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}
