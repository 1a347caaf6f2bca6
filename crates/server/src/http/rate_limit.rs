//! The headers `RateLimit-Policy` and `RateLimit`, as in draft-ietf-httpapi-ratelimit-headers-10.

use std::fmt::Write;

use axum::http::{HeaderMap, HeaderName, HeaderValue};

use crate::service::owner::{Owner, Quota};

const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const LEFT: HeaderName = HeaderName::from_static("ratelimit");

/// Largest integer of a structured field (RFC 9651).
const MAX_INTEGER: u64 = 999_999_999_999_999;

/// Adds both headers if the owner has limits.
pub(crate) fn tell(owner: &Owner, headers: &mut HeaderMap) {
    let quotas = owner.quotas();
    for (name, text) in [(POLICY, list(&quotas, policy)), (LEFT, list(&quotas, left))] {
        if let Ok(value) = HeaderValue::try_from(text)
            && !value.is_empty()
        {
            headers.insert(name, value);
        }
    }
}

fn list(quotas: &[Quota], item: impl Fn(&Quota) -> String) -> String {
    quotas.iter().map(item).collect::<Vec<_>>().join(", ")
}

fn policy(quota: &Quota) -> String {
    let mut text = format!("\"{}\";q={}", quota.name, quota.max.min(MAX_INTEGER));
    if let Some(unit) = quota.unit {
        let _ = write!(text, ";qu=\"{unit}\"");
    }
    if let Some(window) = quota.window {
        let _ = write!(text, ";w={}", window.as_secs());
    }
    text
}

fn left(quota: &Quota) -> String {
    let mut text = format!("\"{}\";r={}", quota.name, quota.left.min(MAX_INTEGER));
    if let Some(until) = quota.full_in {
        // Rounded up to whole seconds.
        let _ = write!(text, ";t={}", until.as_secs_f64().ceil() as u64);
    }
    text
}
