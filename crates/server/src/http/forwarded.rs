//! Headers of trusted proxies: the path prefix and the client's address.

use std::net::IpAddr;
use std::str::FromStr;

use axum::extract::Request;
use axum::http::header::LOCATION;
use axum::http::{HeaderMap, HeaderValue};
use ipnet::IpNet;

/// A proxy whose headers `X-Forwarded-Prefix` and `X-Forwarded-For` are trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TrustedProxy {
    /// All clients that connect from these addresses.
    Network(IpNet),
    /// All clients of the Unix socket.
    Unix,
}

impl FromStr for TrustedProxy {
    type Err = String;

    /// Parses an address (`10.0.0.7`), a network (`10.0.0.0/8`), or `unix`.
    fn from_str(text: &str) -> Result<Self, String> {
        if text == "unix" {
            return Ok(Self::Unix);
        }
        let network = text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from));
        network
            .map(Self::Network)
            .map_err(|_| "use an address, a network such as 10.0.0.0/8, or unix".to_owned())
    }
}

/// The other end of a connection.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peer {
    Tcp(IpAddr),
    Unix,
}

impl Peer {
    fn is_trusted(self, proxies: &[TrustedProxy]) -> bool {
        proxies.iter().any(|proxy| match (proxy, self) {
            (TrustedProxy::Network(network), Self::Tcp(address)) => {
                network.contains(&address.to_canonical())
            }
            (TrustedProxy::Unix, Self::Unix) => true,
            _ => false,
        })
    }
}

/// The path prefix under which the client sees this server.
#[derive(Clone, Debug, Default)]
pub(crate) struct Base(pub String);

/// Determines a request's base path, for generating links.
pub(crate) fn note(proxies: &[TrustedProxy], base_path: &str, request: &mut Request) -> Base {
    let prefix = if is_trusted(proxies, request) {
        prefix_of(request.headers())
    } else {
        String::new()
    };
    let base = Base(prefix + base_path);
    request.extensions_mut().insert(base.clone());
    base
}

/// Adds the base path to a response's `Location`.
pub(crate) fn place(Base(base): Base, headers: &mut HeaderMap) {
    if !base.is_empty()
        && let Some(Ok(path)) = headers.get(LOCATION).map(HeaderValue::to_str)
        && path.starts_with('/')
        && let Ok(location) = HeaderValue::try_from(base + path)
    {
        headers.insert(LOCATION, location);
    }
}

/// The client's address if known: the last address before the trusted proxies.
pub(crate) fn client_of(proxies: &[TrustedProxy], request: &Request) -> Option<IpAddr> {
    let peer = *request.extensions().get::<Peer>()?;
    let mut client = match peer {
        Peer::Tcp(address) => Some(address.to_canonical()),
        Peer::Unix => None,
    };
    if !peer.is_trusted(proxies) {
        return client;
    }
    for address in addresses(request.headers()).into_iter().rev() {
        client = Some(address);
        if !Peer::Tcp(address).is_trusted(proxies) {
            break;
        }
    }
    client
}

fn is_trusted(proxies: &[TrustedProxy], request: &Request) -> bool {
    let peer = request.extensions().get::<Peer>();
    peer.is_some_and(|peer| peer.is_trusted(proxies))
}

/// The addresses in `X-Forwarded-For` up to the first invalid one, starting from the server.
fn addresses(headers: &HeaderMap) -> Vec<IpAddr> {
    let told = headers.get_all("x-forwarded-for").iter().filter_map(|value| value.to_str().ok());
    let read = told.flat_map(|value| value.split(',')).map(|one| one.trim().parse().ok());
    read.fold(Vec::new(), |mut addresses, one: Option<IpAddr>| {
        match one {
            Some(address) => addresses.push(address.to_canonical()),
            None => addresses.clear(),
        }
        addresses
    })
}

/// The prefixes removed by proxies, outermost first.
fn prefix_of(headers: &HeaderMap) -> String {
    let told = headers.get_all("x-forwarded-prefix").iter().map(HeaderValue::to_str);
    let parts: Option<Vec<&str>> = told
        .flat_map(|value| value.unwrap_or("?").split(','))
        .map(|one| {
            Some(one.trim().trim_end_matches('/')).filter(|one| one.is_empty() || is_path(one))
        })
        .collect();
    // An invalid prefix would create broken or malicious links.
    parts.unwrap_or_default().concat()
}

/// Whether a text is a valid path prefix: starts with `/`, does not end with `/`, and needs no
/// encoding.
#[must_use]
pub fn is_path(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.~".contains(c);
    path.starts_with('/') && !path.ends_with('/') && !path.contains("//") && path.chars().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: &'static str, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn a_prefix_is_a_path_or_nothing() {
        let prefix = |values: &[&str]| prefix_of(&headers("x-forwarded-prefix", values));
        for (values, meant) in [
            (&["/a"][..], "/a"),
            (&["/a/"], "/a"),
            (&["/"], ""),
            (&["/a, /b/c"], "/a/b/c"),
            (&["/a", "/b"], "/a/b"),
            (&[], ""),
            (&["a"], ""),
            (&["//evil.example"], ""),
            (&["/a", "//evil.example"], ""),
            (&["https://evil.example"], ""),
            (&["/a\u{e9}"], ""),
            (&["/a b"], ""),
            (&["/a?b"], ""),
        ] {
            assert_eq!(prefix(values), meant, "{values:?}");
        }
    }

    #[test]
    fn only_the_word_of_the_trusted_counts() {
        let proxies: Vec<TrustedProxy> =
            ["10.0.0.0/8", "::1", "unix"].iter().map(|text| text.parse().unwrap()).collect();
        let of = |text: &str| Peer::Tcp(text.parse().unwrap()).is_trusted(&proxies);
        assert!(of("10.1.2.3") && of("::1") && of("::ffff:10.1.2.3"));
        assert!(!of("11.1.2.3") && !of("::2") && !of("127.0.0.1"));
        assert!(Peer::Unix.is_trusted(&proxies) && !Peer::Unix.is_trusted(&proxies[..2]));
        for text in ["", "10.0.0.0/33", "localhost", "Unix"] {
            assert!(text.parse::<TrustedProxy>().is_err(), "{text}");
        }
    }

    #[test]
    fn what_a_stranger_says_of_addresses_ends_their_list() {
        let read = |values: &[&str]| addresses(&headers("x-forwarded-for", values)).len();
        assert_eq!(read(&["1.2.3.4, ::1"]), 2);
        assert_eq!(read(&["1.2.3.4, unknown, ::1", "1.2.3.4"]), 2);
        assert_eq!(read(&["unknown"]), 0);
    }
}
