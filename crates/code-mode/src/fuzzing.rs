//! Entry points to the parsers of server messages, for fuzz targets and tests.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{FutureExt, StreamExt};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use rmcp::model::{CallToolResult, Tool};
use url::Url;

use super::allowance::Allowance;
use super::names::Names;
use super::remote::Remote;
use super::{answer, client, file, schema};

/// Parses the bytes as the format that the first byte selects, and returns whether they are valid.
pub fn parse(bytes: &[u8]) -> bool {
    let Some((form, bytes)) = bytes.split_first() else {
        return false;
    };
    match form % 5 {
        0 => parse_tool(bytes),
        1 => parse_answer(bytes),
        2 => parse_servers(bytes),
        3 => parse_events(bytes),
        _ => parse_redirection(&String::from_utf8_lossy(bytes)),
    }
}

/// Maximum length of an event here.
const MAX_EVENT: usize = 256;

/// Converts a server's tool to a Python function.
fn parse_tool(bytes: &[u8]) -> bool {
    let Ok(tool) = serde_json::from_slice::<Tool>(bytes) else {
        return false;
    };
    let mut names = Names::default();
    let [first, second] = [names.give(&tool.name), names.give(&tool.name)];
    assert!(first != second && belljar::Tool::is_name(&first) && belljar::Tool::is_name(&second));
    let signature = schema::signature(&tool.input_schema, tool.output_schema.as_deref());
    assert!(!signature.contains(char::is_control), "{signature:?}");
    let shown = schema::parameters(&tool.input_schema);
    let text = shown.to_string();
    let function = belljar::Tool::new(first, shown, async |value: serde_json::Value| Ok(value));
    assert!(text.len() < 1 << 20 && belljar::Tool::is_name(function.name()));
    true
}

/// Converts a tool's result to a value.
fn parse_answer(bytes: &[u8]) -> bool {
    let Some((wrapped, bytes)) = bytes.split_first() else {
        return false;
    };
    let result = serde_json::from_slice::<CallToolResult>(bytes);
    result.is_ok_and(|result| answer::value_of(result, wrapped % 2 == 1).is_ok())
}

/// Parses a server list.
fn parse_servers(bytes: &[u8]) -> bool {
    let variable = |name: &str| (name.len() < 4).then(|| name.to_owned());
    file::parse(bytes, &variable).is_some()
}

/// Parses a stream of events, divided into chunks at zero bytes.
fn parse_events(bytes: &[u8]) -> bool {
    let chunks: Vec<_> = bytes
        .split(|byte| *byte == 0)
        .map(|chunk| Ok::<_, Infallible>(Frame::data(Bytes::copy_from_slice(chunk))))
        .collect();
    let body = StreamBody::new(futures_util::stream::iter(chunks)).map_err(|never| match never {});
    let events = client::events::of(body, Allowance::first(), MAX_EVENT, None);
    let read = events.take_while(|event| std::future::ready(event.is_ok())).collect::<Vec<_>>();
    let read = read.now_or_never().unwrap_or_default();
    for event in read.iter().flatten() {
        assert!(event.data.as_ref().is_none_or(|data| data.len() <= MAX_EVENT));
        assert!(event.retry.is_none_or(|pause| (100..=10_000).contains(&pause)));
    }
    !read.is_empty()
}

/// Checks a redirect, which must stay on the same server.
fn parse_redirection(location: &str) -> bool {
    let Ok(from) = Url::parse("http://localhost:8000/mcp") else {
        return false;
    };
    Remote::same_server(&from, location).is_some_and(|to| {
        let uri: http::Uri = to.as_str().parse().expect("a followed redirect is a valid address");
        assert_eq!(uri.authority().map(http::uri::Authority::as_str), Some("localhost:8000"));
        true
    })
}
