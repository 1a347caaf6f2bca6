//! Finds the sandbox and port that a request is for, in its headers or host name.

use axum::http::{HeaderMap, Uri, header};

/// The port of envd: files and commands.
pub(super) const ENVD: u16 = 49983;
/// The port of the code interpreter.
pub(super) const INTERPRETER: u16 = 49999;
/// Length of a sandbox id.
pub(super) const ID_LENGTH: usize = 20;

/// The sandbox that a request names, and the port if given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Address {
    pub sandbox: String,
    pub port: Option<u16>,
}

impl Address {
    /// Reads the headers `E2b-Sandbox-Id` and `E2b-Sandbox-Port`, or the host name
    /// `{port}-{id}.{domain}`. The sandbox need not exist.
    pub(super) fn of(headers: &HeaderMap, uri: &Uri) -> Option<Self> {
        let text = |name: &str| headers.get(name)?.to_str().ok();
        if let Some(sandbox) = headers.get("e2b-sandbox-id") {
            return Some(Self {
                // A header that is not text matches no sandbox.
                sandbox: sandbox.to_str().unwrap_or("").trim().to_owned(),
                port: text("e2b-sandbox-port").and_then(|port| port.trim().parse().ok()),
            });
        }
        let host = text(header::HOST.as_str()).or_else(|| uri.host())?;
        Self::in_host(host)
    }

    /// Reads a host name, which may end in the port of the server.
    pub(super) fn in_host(host: &str) -> Option<Self> {
        let (label, domain) = host.split_once('.')?;
        let (port, sandbox) = label.split_once('-')?;
        let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let sandbox = sandbox.to_ascii_lowercase();
        if !is_port || !is_id(&sandbox) || domain.is_empty() {
            return None;
        }
        Some(Self {
            sandbox,
            port: Some(port.parse().ok()?),
        })
    }
}

/// Whether a text has the form of a sandbox id.
pub(super) fn is_id(text: &str) -> bool {
    text.len() == ID_LENGTH
        && text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: &str = "abcdefghij0123456789";

    fn of(headers: &[(&'static str, &str)]) -> Option<Address> {
        let headers = headers.iter().map(|(name, value)| {
            (name.parse().unwrap(), axum::http::HeaderValue::from_str(value).unwrap())
        });
        Address::of(&headers.collect(), &Uri::from_static("/execute"))
    }

    #[test]
    fn headers_go_before_the_host() {
        let named = of(&[("e2b-sandbox-id", "x"), ("e2b-sandbox-port", "49983"), ("host", "a.b")]);
        assert_eq!(
            named,
            Some(Address {
                sandbox: "x".into(),
                port: Some(ENVD)
            })
        );
        let named = of(&[("e2b-sandbox-id", "x"), ("e2b-sandbox-port", "-1")]);
        assert_eq!(
            named,
            Some(Address {
                sandbox: "x".into(),
                port: None
            })
        );
        let host = format!("49999-{ID}.sandbox.example:3000");
        let named = of(&[("host", &host)]);
        assert_eq!(
            named,
            Some(Address {
                sandbox: ID.into(),
                port: Some(INTERPRETER)
            })
        );
        assert_eq!(of(&[("host", "127.0.0.1:3000")]), None);
        assert_eq!(of(&[]), None);
    }

    #[test]
    fn other_names_are_no_addresses() {
        for host in [
            "localhost",
            "10-20.example",
            &format!("{ID}.example"),
            &format!("-{ID}.example"),
            &format!("49999-{ID}"),
            &format!("49999-{ID}."),
            &format!("99999-{ID}.example"),
            &format!("+9-{ID}.example"),
            &format!("49999-{ID}x.example"),
            &format!("49999-x-{ID}.example"),
        ] {
            assert_eq!(Address::in_host(host), None, "{host}");
        }
    }

    proptest! {
        #[test]
        fn a_host_is_read_or_refused(host in "\\PC{0,80}") {
            if let Some(found) = Address::in_host(&host) {
                prop_assert!(is_id(&found.sandbox));
                let label = format!("{}-{}.", found.port.unwrap(), found.sandbox);
                let zeros = host.to_ascii_lowercase();
                prop_assert!(zeros.trim_start_matches('0').starts_with(label.trim_start_matches('0')));
            }
        }

        #[test]
        fn what_is_written_is_read(port in any::<u16>(), id in "[a-z0-9]{20}", domain in "[a-z]{1,9}(\\.[a-z]{1,9}){0,3}(:[0-9]{1,5})?") {
            let found = Address::in_host(&format!("{port}-{id}.{domain}"));
            prop_assert_eq!(found, Some(Address { sandbox: id, port: Some(port) }));
        }
    }
}
