//! A console for browsers at `/`. The page holds no data: it uses `/v1` with the key that its user
//! enters.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{Extension, Path};
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, REFERRER_POLICY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use data_encoding::HEXLOWER;
use sha2::{Digest, Sha256};

use crate::http::app::App;
use crate::http::forwarded::Base;
use crate::http::problem::Problem;

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// The page; `{base}` stands for the path below which the server is.
const PAGE: &str = include_str!("../console/index.html");

/// Name, type and content of a file that the page loads.
macro_rules! files {
    ($($kind:ident $name:literal),* $(,)?) => {
        [$(($name, $kind, include_str!(concat!("../console/", $name)))),*]
    };
}

const FILES: [(&str, &str, &str); 16] = files![
    CSS "console.css",
    CSS "frame.css",
    SCRIPT "ansi.js",
    SCRIPT "api.js",
    SCRIPT "app.js",
    SCRIPT "batch.js",
    SCRIPT "display.js",
    SCRIPT "dom.js",
    SCRIPT "output.js",
    SCRIPT "receipts.js",
    SCRIPT "reference.js",
    SCRIPT "run.js",
    SCRIPT "server.js",
    SCRIPT "sessions.js",
    SCRIPT "states.js",
    SCRIPT "tree.js",
];

/// Frames show HTML of guests. Their content is in the page (`srcdoc`), has no origin, and inherits
/// this policy.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
     img-src 'self' data: blob:; frame-src 'none'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'";

const HEADERS: [(HeaderName, &str); 5] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (REFERRER_POLICY, "no-referrer"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    // Browsers keep the files, and ask each time whether they have changed.
    (CACHE_CONTROL, "no-cache"),
];

/// Routes of the page and its files. They need no key, because they reveal nothing of this server.
pub(crate) fn routes() -> Router<App> {
    let files: BTreeMap<&str, File> =
        FILES.into_iter().map(|(name, kind, text)| (name, File::new(kind, text))).collect();
    let files = Arc::new(files);
    let file = async move |Path(name): Path<String>, headers: HeaderMap| {
        let found = files.get(name.as_str()).map(|file| file.answer(&headers));
        found.ok_or_else(|| {
            let detail = format!("the console has no file {name:?}");
            Problem::new(StatusCode::NOT_FOUND, "no_route", detail)
        })
    };
    let page = async |Extension(Base(base)): Extension<Base>, headers: HeaderMap| {
        File::new(HTML, PAGE.replace("{base}", &base)).answer(&headers)
    };
    Router::new().route("/", get(page)).route("/console/{name}", get(file))
}

struct File {
    kind: &'static str,
    content: Bytes,
    tag: String,
}

impl File {
    fn new(kind: &'static str, content: impl Into<Bytes>) -> Self {
        let content = content.into();
        Self {
            kind,
            tag: format!("\"{}\"", &HEXLOWER.encode(&Sha256::digest(&content))[..32]),
            content,
        }
    }

    fn answer(&self, asked: &HeaderMap) -> Response {
        let known = asked.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok());
        let is_known = known.is_some_and(|tags| tags.split(',').any(|tag| tag.trim() == self.tag));
        let mut response = if is_known {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            ([(CONTENT_TYPE, self.kind)], self.content.clone()).into_response()
        };
        let headers = response.headers_mut();
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if let Ok(tag) = HeaderValue::from_str(&self.tag) {
            headers.insert(ETAG, tag);
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_the_console_is_served() {
        let dir = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/console");
        let there = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name());
        let mut there: Vec<String> = there.map(|name| name.into_string().unwrap()).collect();
        there.retain(|name| name != "index.html");
        there.sort();
        let mut served = FILES.map(|(name, ..)| name);
        served.sort_unstable();
        assert_eq!(there, served);
    }

    #[test]
    fn the_page_holds_no_scripts_or_styles_of_its_own() {
        let page = PAGE.to_ascii_lowercase();
        assert!(!page.contains("style=") && !page.contains("<style") && !page.contains(" on"));
        assert_eq!(
            page.matches("<script").count(),
            page.matches("<script type=\"module\" src=").count()
        );
        for (name, _, text) in FILES {
            for forbidden in
                ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("]
            {
                assert!(!text.contains(forbidden), "{name} has {forbidden}");
            }
        }
    }
}
