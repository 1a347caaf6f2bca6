//! Client of Lambda's runtime API, version 2018-06-01.

use std::time::{Duration, SystemTime};

use anyhow::Context;
use serde_json::Value;
use ureq::Agent;
use ureq::http::{HeaderMap, StatusCode};

/// Maximum size of an event: Lambda's limit, with a margin.
const MAX_EVENT: u64 = 32 << 20;

/// The API at an address.
pub(super) struct Api {
    agent: Agent,
    base: String,
}

/// An invocation of the function.
#[derive(Debug)]
pub(super) struct Invocation {
    pub id: String,
    /// Deadline for the answer.
    pub deadline: SystemTime,
    pub event: Vec<u8>,
}

impl Api {
    pub(super) fn at(address: &str) -> Self {
        // No timeout, because the next invocation may be hours away. Error statuses are handled
        // here, and no proxy is used.
        let config = Agent::config_builder().http_status_as_error(false).proxy(None).build();
        Self {
            agent: config.into(),
            base: format!("http://{address}/2018-06-01/runtime"),
        }
    }

    /// Waits for an invocation.
    pub(super) fn next(&self) -> anyhow::Result<Invocation> {
        let url = format!("{}/invocation/next", self.base);
        let mut response =
            self.agent.get(&url).call().context("cannot get an invocation from Lambda")?;
        expect(response.status(), "get an invocation from Lambda")?;
        let (id, deadline) = of_headers(response.headers())?;
        let event = response
            .body_mut()
            .with_config()
            .limit(MAX_EVENT)
            .read_to_vec()
            .context("cannot read an invocation's event")?;
        Ok(Invocation {
            id,
            deadline,
            event,
        })
    }

    /// Answers an invocation. An answer that is too large for Lambda becomes an error.
    pub(super) fn respond(&self, id: &str, body: &[u8]) -> anyhow::Result<()> {
        let status = self.post(&format!("invocation/{id}/response"), body, None)?;
        if status != StatusCode::PAYLOAD_TOO_LARGE {
            return expect(status, "answer an invocation");
        }
        let message = format!("the outcome is {} bytes, more than Lambda accepts", body.len());
        self.fail(id, &super::error_of("too_large", &message))
    }

    /// Reports that an invocation failed.
    pub(super) fn fail(&self, id: &str, failure: &Value) -> anyhow::Result<()> {
        let status = self.report(&format!("invocation/{id}/error"), failure)?;
        expect(status, "report an error to Lambda")
    }

    /// Reports that initialization failed.
    pub(super) fn failed_to_start(&self, failure: &Value) -> anyhow::Result<()> {
        let status = self.report("init/error", failure)?;
        expect(status, "report an error to Lambda")
    }

    fn report(&self, path: &str, failure: &Value) -> anyhow::Result<StatusCode> {
        let body = serde_json::to_vec(failure)?;
        self.post(path, &body, failure["errorType"].as_str())
    }

    fn post(&self, path: &str, body: &[u8], error: Option<&str>) -> anyhow::Result<StatusCode> {
        let url = format!("{}/{path}", self.base);
        let mut request = self.agent.post(&url).content_type("application/json");
        if let Some(error) = error {
            request = request.header("Lambda-Runtime-Function-Error-Type", error);
        }
        let response = request.send(body).context("cannot answer Lambda")?;
        Ok(response.status())
    }
}

/// On any other status this process cannot continue and has to exit.
fn expect(status: StatusCode, action: &str) -> anyhow::Result<()> {
    anyhow::ensure!(status.is_success(), "cannot {action}: the status is {status}");
    Ok(())
}

fn of_headers(headers: &HeaderMap) -> anyhow::Result<(String, SystemTime)> {
    let header = |name: &str| {
        let value = headers.get(name).and_then(|value| value.to_str().ok());
        value.with_context(|| format!("an invocation has no {name}"))
    };
    let id = header("Lambda-Runtime-Aws-Request-Id")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
    anyhow::ensure!(!id.is_empty() && id.chars().all(plain), "the id of an invocation is {id:?}");
    let deadline = header("Lambda-Runtime-Deadline-Ms")?;
    let deadline: u64 = deadline
        .parse()
        .with_context(|| format!("the deadline of an invocation is {deadline:?}"))?;
    let deadline = SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_millis(deadline))
        .context("the deadline of an invocation is too late")?;
    Ok((id.to_owned(), deadline))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&'static str, &str)]) -> anyhow::Result<(String, SystemTime)> {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.insert(*name, value.parse().unwrap());
        }
        of_headers(&headers)
    }

    #[test]
    fn an_invocation_has_an_id_and_a_deadline() {
        let id = ("lambda-runtime-aws-request-id", "8476a536-e9f4");
        let deadline = ("lambda-runtime-deadline-ms", "1542409706888");
        assert_eq!(read(&[id, deadline]).unwrap().0, "8476a536-e9f4");
        assert!(read(&[id]).is_err());
        assert!(read(&[deadline]).is_err());
        assert!(read(&[("lambda-runtime-aws-request-id", "../x"), deadline]).is_err());
        for wrong in ["soon", "-1", "18446744073709551616"] {
            assert!(read(&[id, ("lambda-runtime-deadline-ms", wrong)]).is_err(), "{wrong}");
        }
    }
}
