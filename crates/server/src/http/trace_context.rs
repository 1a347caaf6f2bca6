//! The trace of a request: the header `traceparent` of W3C Trace Context.

use axum::http::HeaderMap;
use data_encoding::HEXLOWER;

/// A trace id and the client's span.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TraceContext {
    /// 32 lower-case hexadecimal digits.
    pub trace_id: String,
    /// 16 lower-case hexadecimal digits; `None` if the trace begins here.
    pub parent_id: Option<String>,
}

impl TraceContext {
    /// Reads the header, or starts a new trace.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let mut named = headers.get_all("traceparent").iter();
        // Repeated headers are invalid.
        let named = named.next().filter(|_| named.next().is_none());
        named
            .and_then(|value| value.to_str().ok())
            .and_then(Self::parse)
            .unwrap_or_else(Self::begin)
    }

    fn begin() -> Self {
        let mut bytes = [0; 16];
        // Without random numbers, the trace id is zero. The request still has its own id.
        let _ = getrandom::fill(&mut bytes);
        Self {
            trace_id: HEXLOWER.encode(&bytes),
            parent_id: None,
        }
    }

    /// Parses `version-trace-parent-flags`. Later versions may have more parts.
    fn parse(text: &str) -> Option<Self> {
        let is_hex = |part: &str, length: usize| {
            part.len() == length && part.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
        };
        let is_some = |part: &str| part.bytes().any(|byte| byte != b'0');
        let mut parts = text.trim().split('-');
        let (version, trace) = (parts.next()?, parts.next()?);
        let (parent, flags) = (parts.next()?, parts.next()?);
        let is_valid = is_hex(version, 2)
            && version != "ff"
            && (version != "00" || parts.next().is_none())
            && is_hex(trace, 32)
            && is_some(trace)
            && is_hex(parent, 16)
            && is_some(parent)
            && is_hex(flags, 2);
        is_valid.then(|| Self {
            trace_id: trace.to_owned(),
            parent_id: Some(parent.to_owned()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const PARENT: &str = "00f067aa0ba902b7";

    #[test]
    fn a_trace_is_that_of_the_request() {
        for text in [format!("00-{TRACE}-{PARENT}-01"), format!("cc-{TRACE}-{PARENT}-00-more")] {
            let read = TraceContext::parse(&text).unwrap();
            assert_eq!(read.trace_id, TRACE);
            assert_eq!(read.parent_id.as_deref(), Some(PARENT));
        }
    }

    #[test]
    fn what_is_no_trace_begins_one() {
        for text in [
            String::new(),
            TRACE.to_owned(),
            format!("00-{TRACE}-{PARENT}-01-more"),
            format!("ff-{TRACE}-{PARENT}-01"),
            format!("00-{}-{PARENT}-01", TRACE.to_uppercase()),
            format!("00-{}-{PARENT}-01", "0".repeat(32)),
            format!("00-{TRACE}-{}-01", "0".repeat(16)),
            format!("00-{TRACE}-{PARENT}-1\u{e9}"),
            format!("00-{TRACE}-{PARENT}"),
        ] {
            assert_eq!(TraceContext::parse(&text), None, "{text}");
        }
        let headers = |values: &[String]| -> HeaderMap {
            values
                .iter()
                .map(|value| ("traceparent".parse().unwrap(), value.parse().unwrap()))
                .collect()
        };
        let text = format!("00-{TRACE}-{PARENT}-01");
        assert_eq!(TraceContext::of(&headers(std::slice::from_ref(&text))).trace_id, TRACE);
        for values in [vec![], vec![text.clone(), text]] {
            let begun = TraceContext::of(&headers(&values));
            assert!(begun.trace_id != TRACE && begun.trace_id.len() == 32, "{begun:?}");
            assert_eq!(begun.parent_id, None);
        }
    }
}
