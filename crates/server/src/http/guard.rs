//! Protection against other sites' pages in a browser, by the `Host` and `Origin` headers.

use axum::extract::{Request, State};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::app::App;
use super::problem::Problem;

/// Rejects requests that a foreign page made a browser send: those with a foreign `Origin`, and, if
/// no key is required, those with an unknown `Host` (DNS rebinding).
pub(crate) async fn check(State(app): State<App>, request: Request, next: Next) -> Response {
    match refuse(&app, request.headers(), request.uri().host()) {
        Some(problem) => problem.into_response(),
        None => next.run(request).await,
    }
}

fn refuse(app: &App, headers: &HeaderMap, in_uri: Option<&str>) -> Option<Problem> {
    let text = |name| headers.get(name)?.to_str().ok();
    let settings = app.settings();
    let host = in_uri.or_else(|| text(HOST)).unwrap_or_default();
    // Browsers always send a host.
    let is_checked = !app.keys().are_needed() && !settings.is_unix && !host.is_empty();
    if is_checked && !is_known(name_of(host), &settings.hosts) {
        let detail = format!("{host:?} is not a name of this server");
        let problem = Problem::new(StatusCode::FORBIDDEN, "foreign_host", detail);
        return Some(problem.hint("start it with --host NAME, or with keys"));
    }
    let origin = headers.get(ORIGIN)?.to_str().unwrap_or_default();
    let is_own = origin.split_once("://").is_some_and(|(_, rest)| rest == host);
    if is_own || settings.origins.iter().any(|known| known == origin) {
        return None;
    }
    let detail = format!("pages of {origin:?} may not use this server");
    let problem = Problem::new(StatusCode::FORBIDDEN, "foreign_origin", detail);
    Some(problem.hint("start it with --origin ORIGIN"))
}

/// A host without its port.
fn name_of(host: &str) -> &str {
    match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, _)) => address,
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    }
}

/// Whether a name is an address, which DNS cannot redirect, `localhost`, or a known name; `*.NAME`
/// matches all subdomains.
fn is_known(name: &str, known: &[String]) -> bool {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    name.parse::<std::net::IpAddr>().is_ok()
        || name == "localhost"
        || name.ends_with(".localhost")
        || known.iter().any(|known| match known.strip_prefix("*.") {
            Some(parent) => name
                .strip_suffix(&parent.to_ascii_lowercase())
                .is_some_and(|rest| rest.ends_with('.')),
            None => known.eq_ignore_ascii_case(&name),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_known_by_what_they_are() {
        let known = ["belljar.example".to_owned(), "*.sandbox.example".to_owned()];
        for host in [
            "127.0.0.1:3000",
            "[::1]:3000",
            "10.0.0.7",
            "localhost:3000",
            "a.localhost",
            "LOCALHOST.",
            "Belljar.example:80",
            "49999-x.sandbox.example",
        ] {
            assert!(is_known(name_of(host), &known), "{host}");
        }
        for host in [
            "",
            "evil.example",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "sandbox.example",
            "evilsandbox.example",
            "xbelljar.example",
        ] {
            assert!(!is_known(name_of(host), &known), "{host}");
        }
    }
}
