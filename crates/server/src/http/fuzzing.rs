//! Parsers of requests to all faces, for fuzz targets and tests.

use std::time::{Duration, UNIX_EPOCH};

use axum::body::Body;
use axum::http::header::{AUTHORIZATION, IF_MATCH, IF_NONE_MATCH, IF_RANGE, RANGE};
use axum::http::{HeaderMap, HeaderValue};

use super::auth::{key_in, plain_key_in};
use super::files::{Asked, FileHead, may_write};
use super::keyfile;

/// Parses the bytes as the format that the first byte selects, and returns whether they are valid.
pub(crate) fn parse(bytes: &[u8]) -> bool {
    let Some((form, bytes)) = bytes.split_first() else {
        return false;
    };
    match form % 3 {
        0 => parse_conditions(bytes),
        1 => {
            let mut headers = HeaderMap::new();
            if let Ok(value) = HeaderValue::from_bytes(bytes) {
                headers.insert(AUTHORIZATION, value);
            }
            plain_key_in(&headers).is_some() | key_in(&headers).is_some()
        }
        _ => std::str::from_utf8(bytes).is_ok_and(|text| keyfile::parse(text).is_ok()),
    }
}

/// A file request: path (its length is the file's size), then lines of headers.
fn parse_conditions(bytes: &[u8]) -> bool {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let path = String::from_utf8_lossy(lines.next().unwrap_or_default()).into_owned();
    let mut headers = HeaderMap::new();
    for (name, line) in [RANGE, IF_MATCH, IF_NONE_MATCH, IF_RANGE].into_iter().zip(lines) {
        if let Ok(value) = HeaderValue::from_bytes(line)
            && !line.is_empty()
        {
            headers.insert(name, value);
        }
    }
    let file = FileHead {
        size: path.len() as u64,
        path,
        modified: Some(UNIX_EPOCH + Duration::from_secs(1)),
    };
    let _ = may_write(&headers, Some(&file));
    let Ok(asked) = file.asked(&headers) else {
        return false;
    };
    if let Asked::Part(start, end) = asked {
        assert!(start < end && end <= file.size, "{start} to {end} of {}", file.size);
    }
    let response = file.respond(&asked, Body::empty());
    for (_, value) in response.headers() {
        assert!(value.to_str().is_ok(), "{value:?}");
    }
    true
}
