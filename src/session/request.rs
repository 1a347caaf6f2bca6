//! Settings of a restored session, as JSON.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::Error as _;
use serde::{Deserialize, Deserializer};

use super::lease::LeaseEnd;
use super::options::SessionLimits;
use super::restore::RestoreOptions;
use crate::api::request::Policy;

/// Settings that are not in the checkpoint, or replace those in it. The sender may name host
/// directories. All keys are optional.
///
/// ```
/// use belljar::session::{RestoreOptions, RestoreRequest};
///
/// let asked: RestoreRequest = serde_json::from_str(
///     r#"{"id": "mine", "idle": 600, "lease": {"seconds": 60, "then": "suspend"}}"#,
/// )?;
/// let options = asked.into_options(RestoreOptions::file("session.belljar"));
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct RestoreRequest {
    /// Id of the session.
    pub id: Option<String>,
    /// Client whose default session this is.
    pub client: Option<String>,
    /// Host directories, by their path in the session.
    pub mounts: BTreeMap<String, PathBuf>,
    /// Limit on the time since the session's creation, in seconds.
    #[serde(deserialize_with = "limit")]
    pub lifetime: Option<Duration>,
    /// Limit on the time since the session's last use, in seconds.
    #[serde(deserialize_with = "limit")]
    pub idle: Option<Duration>,
    /// Limit on the fuel of all runs together.
    pub fuel: Option<u64>,
    /// Restrictions on the code.
    pub policy: Option<Policy>,
    /// When the session ends, unless the lease is extended.
    pub lease: Option<LeaseRequest>,
}

/// Duration of a session's lease, and what happens at its end.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct LeaseRequest {
    /// Seconds from now.
    #[serde(deserialize_with = "seconds")]
    pub seconds: Duration,
    /// `close` (default) or `suspend`.
    #[serde(default)]
    pub then: LeaseEnd,
}

impl RestoreRequest {
    /// Adds these settings to `options`, which names the checkpoint.
    #[must_use]
    pub fn into_options(self, mut options: RestoreOptions) -> RestoreOptions {
        for (guest, host) in self.mounts {
            options = options.mount(host, guest);
        }
        if let Some(id) = self.id {
            options = options.id(id);
        }
        if let Some(client) = self.client {
            options = options.client(client);
        }
        if let Some(policy) = self.policy {
            options = options.policy(policy);
        }
        if let Some(LeaseRequest { seconds, then }) = self.lease {
            options = options.lease(seconds, then);
        }
        options.limits(SessionLimits {
            lifetime: self.lifetime,
            idle: self.idle,
            fuel: self.fuel,
        })
    }
}

fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    let seconds = f64::deserialize(deserializer)?;
    let wrong = |_| D::Error::custom(format!("{seconds} is not a number of seconds"));
    Duration::try_from_secs_f64(seconds).map_err(wrong)
}

fn limit<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
    #[derive(Deserialize)]
    struct Seconds(#[serde(deserialize_with = "seconds")] Duration);
    Ok(Option::<Seconds>::deserialize(deserializer)?.map(|Seconds(time)| time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_what_the_options_say() {
        let asked = r#"{"id": "a", "client": "c", "mounts": {"/data": "/srv"}, "lifetime": 1.5, "idle": null,
            "fuel": 7, "policy": "strict", "lease": {"seconds": 2, "then": "suspend"}}"#;
        let asked: RestoreRequest = serde_json::from_str(asked).unwrap();
        let options = asked.into_options(RestoreOptions::file("x"));
        assert_eq!((options.id.as_deref(), options.client.as_deref()), (Some("a"), Some("c")));
        assert_eq!(options.mounts[0].guest, "/data");
        let expected = SessionLimits::default().lifetime(Duration::from_millis(1500)).fuel(7);
        assert_eq!(options.limits, expected);
        assert_eq!(options.policy, Some(Policy::Strict));
        assert_eq!(options.lease, Some((Duration::from_secs(2), LeaseEnd::Suspend)));
        let lease: LeaseRequest = serde_json::from_str(r#"{"seconds": 1}"#).unwrap();
        assert_eq!(lease.then, LeaseEnd::Close);
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (asked, why) in [
            (r#"{"idle": -1}"#, "-1 is not a number of seconds"),
            (r#"{"lifetime": 1e300}"#, "is not a number of seconds"),
            (r#"{"lifetim": 1}"#, "unknown field `lifetim`"),
            (r#"{"lease": {"seconds": 1, "then": "drop"}}"#, "unknown variant `drop`"),
            (r#"{"lease": {}}"#, "missing field `seconds`"),
        ] {
            let error = serde_json::from_str::<RestoreRequest>(asked).unwrap_err().to_string();
            assert!(error.contains(why), "{asked}: {error}");
        }
    }
}
