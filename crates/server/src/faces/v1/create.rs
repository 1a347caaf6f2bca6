//! How a session is asked for: the keys of a run, and those that only a session has.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use belljar::SessionOptions;
use belljar::request::{HostPaths, RunRequest};
use belljar::session::{LeaseEnd, SessionLimits};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use crate::http::problem::Problem;
use crate::service::held::{NAME_PATTERN, NewSession};

/// What a session is to be like.
#[derive(Default)]
pub(super) struct CreateSession {
    own: Own,
    start: Option<RunRequest>,
}

/// What only a session has.
#[derive(Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Own {
    /// A name by which it is found as well as by its id: 1 to 64 letters, digits, `-` and `_`.
    #[schemars(regex(pattern = NAME_PATTERN))]
    name: Option<String>,
    /// Whatever it is to be known by: at most 64 labels, of 16 KiB together.
    labels: BTreeMap<String, String>,
    /// Seconds that it may live; past them no run starts.
    lifetime: Option<f64>,
    /// Seconds between two runs, past which no run starts.
    idle: Option<f64>,
    /// Fuel of all its runs together.
    total_fuel: Option<u64>,
    /// Runs that it can go back to. Default 100.
    history_runs: Option<usize>,
    /// Bytes that only states of the past hold. Default 64 MiB.
    history_bytes: Option<u64>,
    /// Until when somebody answers for it.
    lease: Option<Lease>,
}

/// How long somebody answers for a session.
#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Lease {
    /// Seconds from now.
    seconds: f64,
    /// What becomes of it then. Default `close`.
    #[serde(default)]
    then: Then,
}

/// What becomes of a session when its lease is over.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Then {
    /// It is closed.
    #[default]
    Close,
    /// It is put on the disk.
    Suspend,
}

const OWN: [&str; 8] =
    ["name", "labels", "lifetime", "idle", "total_fuel", "history_runs", "history_bytes", "lease"];

impl<'de> Deserialize<'de> for CreateSession {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut keys: Map<String, Value> = Map::deserialize(deserializer)?;
        let own = OWN.iter().filter_map(|name| Some(((*name).to_owned(), keys.remove(*name)?)));
        let own = own.collect();
        keys.entry("code").or_insert_with(|| "".into());
        Ok(Self {
            own: read(own).map_err(D::Error::custom)?,
            start: Some(read(keys).map_err(D::Error::custom)?),
        })
    }
}

fn read<T: DeserializeOwned>(keys: Map<String, Value>) -> serde_json::Result<T> {
    serde_json::from_value(Value::Object(keys))
}

impl JsonSchema for CreateSession {
    fn schema_name() -> Cow<'static, str> {
        "CreateSession".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = RunRequest::json_schema(generator);
        let own = Own::json_schema(generator);
        schema.remove("required");
        let about = "What a session is to be like. `code` runs first; the keys of a run's limits are \
                     those of its runs that name none.";
        schema.insert("description".into(), about.into());
        if let (Some(Value::Object(all)), Some(Value::Object(more))) =
            (schema.get_mut("properties"), own.get("properties"))
        {
            all.extend(more.clone());
        }
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
                // A session is worth the time that the larger image costs its runs.
                if image.is_none() {
                    options.image("data")
                } else {
                    options
                }
            }
            None => SessionOptions::new(),
        };
        let mut limits = SessionLimits::default();
        limits.lifetime = lifetime.map(|time| seconds("lifetime", time)).transpose()?;
        limits.idle = idle.map(|time| seconds("idle", time)).transpose()?;
        limits.fuel = total_fuel;
        options.limits = limits;
        options.labels = labels;
        options.history.runs = history_runs.unwrap_or(options.history.runs);
        options.history.bytes = history_bytes.unwrap_or(options.history.bytes);
        options.lease = match lease {
            Some(Lease {
                seconds: time,
                then,
            }) => Some((seconds("lease.seconds", time)?, then.into())),
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

/// A time that a client names.
pub(super) fn seconds(field: &str, time: f64) -> Result<Duration, Problem> {
    Duration::try_from_secs_f64(time).map_err(|_| {
        let detail = format!("{field}: {time} is not a number of seconds");
        Problem::new(axum::http::StatusCode::UNPROCESSABLE_ENTITY, "bad_field", detail)
    })
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
    fn nothing_is_a_session_with_every_default() {
        assert_eq!(read("{}").unwrap().options, SessionOptions::new());
    }

    #[test]
    fn mistakes_are_named() {
        for (text, name) in [
            (r#"{"nam": "x"}"#, "nam"),
            (r#"{"lifetime": -1}"#, "lifetime"),
            (r#"{"lifetime": 1e300}"#, "lifetime"),
            (r#"{"lease": {"second": 1}}"#, "second"),
            (r#"{"lease": 1}"#, "Lease"),
            (r#"{"files": {"a": {"path": "/etc/passwd"}}}"#, "host"),
        ] {
            let error = read(text).unwrap_err();
            assert!(error.contains(name), "{text}: {error}");
        }
    }
}
