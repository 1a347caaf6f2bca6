//! File responses: entity tags, ranges, and headers that prevent browsers from rendering content.

use std::io::{self, Read, Seek, SeekFrom};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE,
    ETAG, IF_MATCH, IF_NONE_MATCH, IF_RANGE, LAST_MODIFIED, RANGE, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures_util::stream::try_unfold;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use tokio::task::spawn_blocking;

use super::problem::Problem;

/// Bytes read from a file at a time.
const PIECE: usize = 256 << 10;

/// Characters that a file name in a header encodes.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Metadata of a file to send.
#[derive(Debug, Clone)]
pub(crate) struct FileHead {
    /// Path. Its last component is the name for downloads.
    pub path: String,
    pub size: u64,
    pub modified: Option<SystemTime>,
}

/// The part of a file that a client requests.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    /// The whole file.
    Whole,
    /// The bytes from start to end, exclusive.
    Part(u64, u64),
    /// Nothing: the client's copy is current.
    NotModified,
}

impl FileHead {
    /// The entity tag, derived from size and time.
    pub(crate) fn tag(&self) -> String {
        let since = self.modified.and_then(|time| time.duration_since(UNIX_EPOCH).ok());
        format!("\"{:x}-{:x}\"", self.size, since.map_or(0, |since| since.as_nanos()))
    }

    /// Evaluates the request's conditional and range headers.
    pub(crate) fn asked(&self, headers: &HeaderMap) -> Result<Asked, Problem> {
        let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let tag = self.tag();
        if text(IF_MATCH).is_some_and(|tags| !names(tags, &tag)) {
            return Err(changed());
        }
        if text(IF_NONE_MATCH).is_some_and(|tags| names(tags, &tag)) {
            return Ok(Asked::NotModified);
        }
        let is_current = text(IF_RANGE).is_none_or(|only| only == tag);
        match text(RANGE).filter(|_| is_current) {
            Some(range) => part(range, self.size),
            None => Ok(Asked::Whole),
        }
    }

    /// Responds with the requested part of an open file, which is read while it is sent. Fails if
    /// the file has changed its length.
    pub(crate) async fn send(
        &self,
        asked: &Asked,
        mut file: impl Read + Seek + Send + 'static,
    ) -> io::Result<Response> {
        let (start, end) = match asked {
            Asked::NotModified => return Ok(self.respond(asked, Body::empty())),
            Asked::Whole => (0, self.size),
            Asked::Part(start, end) => (*start, *end),
        };
        let size = self.size;
        let sought = spawn_blocking(move || {
            if file.seek(SeekFrom::End(0))? != size {
                return Err(io::ErrorKind::InvalidData.into());
            }
            file.seek(SeekFrom::Start(start))?;
            Ok::<_, io::Error>(file.take(end - start))
        });
        let pieces = try_unfold(sought.await??, |mut file| async move {
            let read = spawn_blocking(move || {
                let mut piece = Vec::with_capacity(PIECE);
                file.by_ref().take(PIECE as u64).read_to_end(&mut piece)?;
                Ok::<_, io::Error>((piece, file))
            });
            let (piece, file) = read.await??;
            Ok::<_, io::Error>((!piece.is_empty()).then(|| (Bytes::from(piece), file)))
        });
        Ok(self.respond(asked, Body::from_stream(pieces)))
    }

    /// Responds with `body`, which is the requested part.
    pub(crate) fn respond(&self, asked: &Asked, body: Body) -> Response {
        let mut response = body.into_response();
        let (status, length) = match asked {
            Asked::NotModified => (StatusCode::NOT_MODIFIED, None),
            Asked::Whole => (StatusCode::OK, Some(self.size)),
            Asked::Part(start, end) => (StatusCode::PARTIAL_CONTENT, Some(end - start)),
        };
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let mut set = |name, value: String| {
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(name, value);
            }
        };
        set(ETAG, self.tag());
        set(CACHE_CONTROL, "private, no-cache".into());
        if let Some(length) = length {
            set(CONTENT_LENGTH, length.to_string());
            set(ACCEPT_RANGES, "bytes".into());
            let media = mime_guess::from_path(&self.path).first_or_octet_stream();
            set(CONTENT_TYPE, media.to_string());
            // Guests' files are untrusted and must not be rendered as pages of this server.
            set(CONTENT_DISPOSITION, disposition(&self.path));
            set(X_CONTENT_TYPE_OPTIONS, "nosniff".into());
        }
        if let Asked::Part(start, end) = asked {
            set(CONTENT_RANGE, format!("bytes {start}-{}/{}", end - 1, self.size));
        }
        if let Some(modified) = self.modified {
            set(LAST_MODIFIED, calendar(modified).format("%a, %d %b %Y %H:%M:%S GMT").to_string());
        }
        response
    }
}

/// Checks a write's preconditions: `If-Match`, and `If-None-Match: *`.
pub(crate) fn may_write(headers: &HeaderMap, there: Option<&FileHead>) -> Result<(), Problem> {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let matches = |tags: &str| there.is_some_and(|file| names(tags, &file.tag()));
    if text(IF_MATCH).is_some_and(|tags| !matches(tags)) || text(IF_NONE_MATCH).is_some_and(matches)
    {
        return Err(changed());
    }
    Ok(())
}

fn changed() -> Problem {
    let detail = "the file does not match the request's precondition";
    Problem::new(StatusCode::PRECONDITION_FAILED, "file.changed", detail)
}

/// Whether a list of tags contains a tag or is `*`.
fn names(tags: &str, tag: &str) -> bool {
    tags.trim() == "*" || tags.split(',').any(|one| one.trim().trim_start_matches("W/") == tag)
}

/// Parses a single byte range. Invalid and multiple ranges select the whole file.
fn part(range: &str, size: u64) -> Result<Asked, Problem> {
    let Some(asked) = range.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return Ok(Asked::Whole);
    };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let (start, end) = match (asked.0.trim(), asked.1.trim()) {
        ("", last) => match number(last) {
            Some(last) => (size.saturating_sub(last), size),
            None => return Ok(Asked::Whole),
        },
        (first, "") => match number(first) {
            Some(first) => (first, size),
            None => return Ok(Asked::Whole),
        },
        (first, last) => match (number(first), number(last)) {
            (Some(first), Some(last)) if first <= last => (first, last.saturating_add(1).min(size)),
            _ => return Ok(Asked::Whole),
        },
    };
    if start >= end {
        let detail = format!("the file has {size} bytes");
        return Err(Problem::new(StatusCode::RANGE_NOT_SATISFIABLE, "file.range", detail));
    }
    Ok(Asked::Part(start, end))
}

/// Makes browsers save a file under the last component of its path, escaped.
fn disposition(path: &str) -> String {
    let name = path.rsplit('/').next().unwrap_or_default();
    let plain: String = name
        .chars()
        .map(|c| {
            if c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '%') {
                c
            } else {
                '_'
            }
        })
        .collect();
    let encoded = utf8_percent_encode(name, RESERVED);
    format!("attachment; filename=\"{plain}\"; filename*=UTF-8''{encoded}")
}

/// Formats a time for JSON.
pub(crate) fn timestamp(time: SystemTime) -> String {
    calendar(time).to_rfc3339_opts(chrono::SecondsFormat::Millis, true)
}

/// Clamps a time to the calendar's range, because guests can set any time.
fn calendar(time: SystemTime) -> DateTime<Utc> {
    let far = UNIX_EPOCH + Duration::from_hours(24 * 365 * 8000);
    time.clamp(UNIX_EPOCH, far).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_http_has_them() {
        for (range, asked) in [
            ("bytes=0-9", Some(Asked::Part(0, 10))),
            ("bytes=90-", Some(Asked::Part(90, 100))),
            ("bytes=-5", Some(Asked::Part(95, 100))),
            ("bytes=-500", Some(Asked::Part(0, 100))),
            ("bytes=50-99999999999999999999999", Some(Asked::Part(50, 100))),
            ("bytes=0-1,5-6", Some(Asked::Whole)),
            ("bytes=9-3", Some(Asked::Whole)),
            ("bytes=+1-3", Some(Asked::Whole)),
            ("lines=1-2", Some(Asked::Whole)),
            ("bytes=100-", None),
            ("bytes=-0", None),
        ] {
            assert_eq!(part(range, 100).ok(), asked, "{range}");
        }
    }

    #[test]
    fn a_name_cannot_leave_its_header() {
        let text = disposition("a/\"; filename=\"x\r\n\u{e9}.txt");
        assert_eq!(
            text,
            "attachment; filename=\"_;_filename=_x___.txt\"; \
             filename*=UTF-8''%22%3B%20filename%3D%22x%0D%0A%C3%A9.txt"
        );
    }

    #[test]
    fn a_time_that_no_calendar_has_is_told_as_the_last() {
        let far = UNIX_EPOCH + Duration::from_secs(u64::MAX / 4);
        assert!(timestamp(far).starts_with("99"), "{}", timestamp(far));
    }
}
