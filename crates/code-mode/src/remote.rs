//! The address of a running server, and the headers for requests to it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use http::{HeaderName, HeaderValue, Uri};
use url::Url;

/// Maximum number of headers for a server.
const MAX_HEADERS: usize = 64;
/// Headers reserved for the protocol and transport.
const RESERVED: &[&str] = &[
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "last-event-id",
    "mcp-method",
    "mcp-name",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Address and headers of a server.
#[derive(Clone, PartialEq)]
pub(super) struct Remote {
    pub url: Url,
    pub headers: HashMap<HeaderName, HeaderValue>,
}

impl Remote {
    /// Checks an address and headers. Errors omit the values, which may be secrets.
    pub(super) fn new(url: &str, headers: &BTreeMap<String, String>) -> Result<Self, String> {
        let mut url = Url::parse(url.trim()).map_err(|error| format!("invalid url: {error}"))?;
        match url.scheme() {
            "http" => {}
            "https" if cfg!(feature = "tls") => {}
            "https" => {
                return Err("https:// requires a build with the feature tls".to_owned());
            }
            other => return Err(format!("{other}:// is not supported")),
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(
                "a user name and password in a url are not supported: use headers".to_owned()
            );
        }
        url.set_fragment(None);
        // Both parsers must accept the URL.
        url.as_str().parse::<Uri>().map_err(|error| format!("invalid url: {error}"))?;
        if headers.len() > MAX_HEADERS {
            return Err(format!("too many headers: {}, of at most {MAX_HEADERS}", headers.len()));
        }
        let headers = headers.iter().map(|(name, value)| header(name, value));
        Ok(Self {
            url,
            headers: headers.collect::<Result<_, _>>()?,
        })
    }

    /// The target of a redirect, if it is on the same server.
    pub(super) fn same_server(from: &Url, location: &str) -> Option<Url> {
        let to = from.join(location).ok()?;
        let is_plain = to.username().is_empty() && to.password().is_none();
        (is_plain && to.origin() == from.origin()).then_some(to)
    }
}

/// Omits header values and the query, which may be secrets.
impl fmt::Debug for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.headers.keys().collect();
        f.debug_struct("Remote")
            .field("server", &self.url.host_str())
            .field("headers", &names)
            .finish()
    }
}

fn header(name: &str, value: &str) -> Result<(HeaderName, HeaderValue), String> {
    let named: HeaderName =
        name.parse().map_err(|_| format!("{name:?} is not a valid header name"))?;
    if RESERVED.contains(&named.as_str()) {
        return Err(format!("the header {named} is reserved for the protocol"));
    }
    let mut value = HeaderValue::from_str(value.trim())
        .map_err(|_| format!("the value of its header {named} contains invalid characters"))?;
    value.set_sensitive(true);
    Ok((named, value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn remote(url: &str, headers: &[(&str, &str)]) -> Result<Remote, String> {
        let headers = headers.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        Remote::new(url, &headers.collect())
    }

    #[test]
    fn an_address_and_its_headers_are_checked_and_never_shown() {
        let fine =
            remote("http://[::1]:80/mcp?key=secret#x", &[("authorization", "Bearer secret ")])
                .unwrap();
        assert_eq!(fine.url.as_str(), "http://[::1]/mcp?key=secret");
        assert_eq!(fine.headers[&http::header::AUTHORIZATION], "Bearer secret");
        assert!(!format!("{fine:?}").contains("secret"));
        for (url, headers, says) in [
            ("mcp", &[][..], "url"),
            ("ftp://x/", &[], "ftp://"),
            ("file:///etc/passwd", &[], "file://"),
            ("http://ada:secret@x/", &[], "headers"),
            ("http://", &[], "url"),
            ("http://x/", &[("Mcp-Session-Id", "1")], "reserved for the protocol"),
            ("http://x/", &[("Host", "y")], "reserved for the protocol"),
            ("http://x/", &[("a b", "secret")], "not a valid header name"),
            ("http://x/", &[("a", "secret\r\nb: c")], "header a"),
        ] {
            let error = remote(url, headers).unwrap_err();
            assert!(error.contains(says) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_redirection_stays_with_its_server() {
        let from = Url::parse("http://localhost:8000/mcp").unwrap();
        let to = |location| Remote::same_server(&from, location).map(String::from);
        assert_eq!(to("/mcp/").as_deref(), Some("http://localhost:8000/mcp/"));
        assert_eq!(to("mcp/?x").as_deref(), Some("http://localhost:8000/mcp/?x"));
        for other in [
            "http://localhost:8001/mcp",
            "https://localhost:8000/mcp",
            "//evil.example/mcp",
            "http://localhost:8000@evil.example/",
            "http://a@localhost:8000/",
            "http://[",
            "javascript:1",
        ] {
            assert_eq!(to(other), None, "{other}");
        }
    }
}
