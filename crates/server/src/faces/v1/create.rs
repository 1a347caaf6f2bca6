//! The request to create a session: the fields of a run, and those of a session.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use axum::http::StatusCode;
use belljar::SessionOptions;
use belljar::request::{HostPaths, RunRequest};
use belljar::session::{LeaseEnd, SessionLimits};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::http::problem::Problem;
use crate::service::owned_session::{NAME_PATTERN, NewSession};

/// Maximum duration in a request, in seconds: 100 years.
pub(super) const MAX_SECONDS: f64 = 3_155_760_000.0;

/// A duration in seconds.
#[derive(Clone, Copy, Deserialize, JsonSchema)]
#[schemars(inline)]
pub(super) struct Seconds(#[schemars(range(min = 0.0, max = MAX_SECONDS))] f64);

impl Seconds {
    /// Checks the range that the schema states.
    pub(super) fn duration(self, field: &str) -> Result<Duration, Problem> {
        if (0.0..=MAX_SECONDS).contains(&self.0) {
            return Ok(Duration::from_secs_f64(self.0));
        }
        let detail = format!("{field} is {}; it must be from 0 to {MAX_SECONDS} seconds", self.0);
        Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_field", detail))
    }
}

/// A request to create a session.
#[derive(Default)]
pub(super) struct CreateSession {
    own: Own,
    start: Option<RunRequest>,
}

/// The fields that only a session has.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Own {
    /// A name that works in place of the id: 1 to 64 letters, digits, `-` and `_`.
    #[schemars(regex(pattern = NAME_PATTERN))]
    name: Option<String>,
    /// Labels: at most 64, and 16 KiB in all.
    labels: BTreeMap<String, String>,
    /// Maximum lifetime in seconds, after which no run starts.
    lifetime: Option<Seconds>,
    /// Maximum time between two runs in seconds, after which no run starts.
    idle: Option<Seconds>,
    /// Total fuel of all its runs.
    total_fuel: Option<u64>,
    /// Number of runs that it can be rewound past. Default 100.
    history_runs: Option<usize>,
    /// Maximum bytes used only by past states. Default 64 MiB.
    history_bytes: Option<u64>,
    /// Lease after which the session is closed or suspended.
    lease: Option<Lease>,
}

/// A lease of a session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Lease {
    /// Duration in seconds from now.
    seconds: Seconds,
    /// Action when the lease expires. Default `close`.
    #[serde(default)]
    then: Then,
}

/// Action when a lease expires.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Then {
    /// Closes the session.
    #[default]
    Close,
    /// Suspends the session to disk.
    Suspend,
}

const OWN: [&str; 8] =
    ["name", "labels", "lifetime", "idle", "total_fuel", "history_runs", "history_bytes", "lease"];

impl<'de> Deserialize<'de> for CreateSession {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys: Map<String, Value> = Map::deserialize(deserializer)?;
        let own = take(&mut keys, &OWN);
        keys.entry("code").or_insert_with(|| "".into());
        Ok(Self {
            own: read(own).map_err(D::Error::custom)?,
            start: Some(read(keys).map_err(D::Error::custom)?),
        })
    }
}

/// Takes these keys out of others.
pub(super) fn take(keys: &mut Map<String, Value>, names: &[&str]) -> Map<String, Value> {
    let taken = names.iter().filter_map(|name| Some(((*name).to_owned(), keys.remove(*name)?)));
    taken.collect()
}

/// A schema, and the properties of another type beside its own.
pub(super) fn merged<T: JsonSchema>(schema: Schema, generator: &mut SchemaGenerator) -> Schema {
    let (mut schema, own) = (schema, T::json_schema(generator));
    if let (Some(Value::Object(all)), Some(Value::Object(more))) =
        (schema.get_mut("properties"), own.get("properties"))
    {
        all.extend(more.clone());
    }
    schema
}

pub(super) fn read<T: DeserializeOwned>(keys: Map<String, Value>) -> serde_json::Result<T> {
    serde_json::from_value(Value::Object(keys))
}

impl JsonSchema for CreateSession {
    fn schema_name() -> Cow<'static, str> {
        "CreateSession".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = merged::<Own>(RunRequest::json_schema(generator), generator);
        schema.remove("required");
        let about =
            "Settings of a session. `code` runs first. The limits are the defaults of its runs.";
        schema.insert("description".into(), about.into());
        schema
    }
}

impl CreateSession {
    pub(super) fn into_new(self) -> Result<NewSession, Problem> {
        let Own {
            name,
            labels,
            lifetime,
            idle,
            total_fuel,
            history_runs,
            history_bytes,
            lease,
        } = self.own;
        let mut options = match self.start {
            Some(start) => {
                let image = start.image.clone();
                let request =
                    start.into_request(HostPaths::Refused).map_err(belljar::Error::from)?;
                let options = SessionOptions::from_request(request);
                // Later runs benefit from the larger image, so it is worth its start time.
                if image.is_none() {
                    options.image("data")
                } else {
                    options
                }
            }
            None => SessionOptions::new(),
        };
        let mut limits = SessionLimits::default();
        limits.lifetime = lifetime.map(|time| time.duration("lifetime")).transpose()?;
        limits.idle = idle.map(|time| time.duration("idle")).transpose()?;
        limits.fuel = total_fuel;
        options.limits = limits;
        options.labels = labels;
        options.history.runs = history_runs.unwrap_or(options.history.runs);
        options.history.bytes = history_bytes.unwrap_or(options.history.bytes);
        options.lease = match lease {
            Some(lease) => Some((lease.seconds.duration("lease.seconds")?, lease.then.into())),
            None => None,
        };
        Ok(NewSession::from(options).named(name))
    }
}

impl From<Then> for LeaseEnd {
    fn from(then: Then) -> Self {
        match then {
            Then::Close => Self::Close,
            Then::Suspend => Self::Suspend,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<NewSession, String> {
        let asked: CreateSession = serde_json::from_str(text).map_err(|error| error.to_string())?;
        asked.into_new().map_err(|problem| problem.detail)
    }

    #[test]
    fn a_session_takes_the_keys_of_a_run_and_its_own() {
        let new = read(
            r#"{"code": "x = 1", "image": "core", "timeout": 2, "name": "n", "labels": {"a": "b"},
                "lifetime": 60, "idle": 5, "total_fuel": 9, "history_runs": 3, "history_bytes": 4,
                "lease": {"seconds": 7, "then": "suspend"}}"#,
        )
        .unwrap();
        let mut expected = SessionOptions::new()
            .image("core")
            .init_code("x = 1")
            .lifetime(Duration::from_mins(1))
            .idle(Duration::from_secs(5))
            .total_fuel(9)
            .history(3, 4)
            .label("a", "b")
            .lease(Duration::from_secs(7), LeaseEnd::Suspend);
        expected.start = expected.start.timeout(Duration::from_secs(2));
        assert_eq!(new.options, expected);
        assert_eq!(new.name.as_deref(), Some("n"));
    }

    #[test]
    fn a_timeout_of_null_is_not_a_missing_one() {
        let start = read(r#"{"timeout": null}"#).unwrap().options.start;
        assert_eq!(start.limits.timeout, Some(Duration::MAX));
        let start = read(r#"{"memory_mb": null}"#).unwrap().options.start;
        assert_eq!(start.limits, SessionOptions::new().start.limits);
    }

    #[test]
    fn nothing_is_a_session_with_every_default() {
        assert_eq!(read("{}").unwrap().options, SessionOptions::new());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, name) in [
            (r#"{"nam": "x"}"#, "nam"),
            (r#"{"lifetime": -1}"#, "lifetime"),
            (r#"{"lifetime": 1e300}"#, "lifetime is 1"),
            (r#"{"lease": {"seconds": 3155760001}}"#, "lease.seconds is 3155760001"),
            (r#"{"lease": {"second": 1}}"#, "second"),
            (r#"{"lease": 1}"#, "Lease"),
            (r#"{"files": {"a": {"path": "/etc/passwd"}}}"#, "host"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(name), "{text}: {error}");
        }
    }
}
