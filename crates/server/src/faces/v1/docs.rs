//! Documentation of the API: `/v1/openapi.json`, and an HTML page that loads nothing external.

use std::fmt::Write;
use std::sync::Arc;

use axum::Router;
use axum::extract::Extension;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use axum::routing::get;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::openapi;
use super::operation::{Content, JSON, Operation};
use crate::http::app::App;
use crate::http::forwarded::Base;

const STYLE: &str = include_str!("docs.css");

/// Both are built once. They need no key, because they reveal nothing about this server.
pub(super) fn routes(operations: &[Operation]) -> Router<App> {
    let document = openapi::document(operations);
    let page = Bytes::from(page(operations, &document));
    let document = Arc::new(document);
    let plain = Bytes::from(document.to_string());
    let hash = BASE64.encode(Sha256::digest(STYLE.as_bytes()));
    let policy = format!(
        "default-src 'none'; style-src 'sha256-{hash}'; base-uri 'none'; form-action 'none'; \
         frame-ancestors 'none'"
    );
    let json = async move |Extension(Base(base)): Extension<Base>| {
        let text = match base.as_str() {
            "" => plain.clone(),
            base => below(&document, base),
        };
        ([(CONTENT_TYPE, JSON)], text)
    };
    let html = async move || {
        let headers = [
            (CONTENT_TYPE, "text/html; charset=utf-8".to_owned()),
            (CONTENT_SECURITY_POLICY, policy.clone()),
            (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        ];
        (headers, page.clone())
    };
    Router::new().route("/v1/openapi.json", get(json)).route("/v1/docs", get(html))
}

/// The document with the base path under which the client sees the server.
fn below(document: &Value, base: &str) -> Bytes {
    let mut document = document.clone();
    document["servers"] = serde_json::json!([{"url": base}]);
    document.to_string().into()
}

fn page(operations: &[Operation], document: &Value) -> String {
    let mut html = String::from(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>belljar /v1</title>\n<style>",
    );
    html.push_str(STYLE);
    html.push_str(
        "</style>\n<h1>belljar <small>/v1</small></h1>\n<p>Send <code>Authorization: Bearer KEY</code> \
         or <code>X-API-Key: KEY</code>. Errors are <code>application/problem+json</code>. \
         <a href=\"openapi.json\">OpenAPI 3.1</a></p>\n",
    );
    for operation in operations {
        let _ = section(&mut html, operation);
    }
    html.push_str("<h2>Types</h2>\n");
    if let Some(Value::Object(schemas)) = document.pointer("/components/schemas") {
        for (name, schema) in schemas {
            let text = serde_json::to_string_pretty(schema).unwrap_or_default();
            let (name, text) = (escaped(name), escaped(&text));
            let _ = writeln!(
                html,
                "<details id=\"{name}\"><summary>{name}</summary><pre>{text}</pre></details>"
            );
        }
    }
    html
}

fn section(html: &mut String, operation: &Operation) -> std::fmt::Result {
    let (method, path) = (operation.method, escaped(operation.path));
    writeln!(html, "<section><h2><b>{method}</b> <code>{path}</code></h2>")?;
    writeln!(html, "<p>{}</p><ul>", marked(operation.about))?;
    for one in &operation.query {
        writeln!(html, "<li>?<code>{}</code>: {}</li>", escaped(one.name), marked(one.about))?;
    }
    for body in &operation.takes {
        writeln!(html, "<li>takes {}</li>", media(body))?;
    }
    for answer in &operation.answers {
        let body = answer.content.as_ref().map(media).unwrap_or_default();
        writeln!(html, "<li>{}: {} {body}</li>", answer.status, marked(answer.about))?;
    }
    writeln!(html, "</ul></section>")
}

/// A media type with a link to its schema.
fn media(content: &Content) -> String {
    let schema = content.schema.map(|describe| {
        let mut generator = schemars::SchemaGenerator::default();
        let schema = describe(&mut generator);
        let target = schema.get("$ref").and_then(Value::as_str).unwrap_or_default();
        let name = escaped(target.rsplit('/').next().unwrap_or_default());
        format!(" <a href=\"#{name}\">{name}</a>")
    });
    format!("<code>{}</code>{}", content.media, schema.unwrap_or_default())
}

/// Text with backticks converted to HTML code elements.
fn marked(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let mark = |(at, part): (usize, &str)| {
        let part = escaped(part);
        if at % 2 == 1 {
            format!("<code>{part}</code>")
        } else {
            part
        }
    };
    parts.map(mark).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
