//! `belljar lambda`: a custom runtime of AWS Lambda.

mod api;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use belljar::request::{HostPaths, RunRequest};
use belljar::{Error, Outcome, Runtime};
use clap::Args;
use serde_json::{Value, json};

use self::api::{Api, Invocation};
use super::args::Global;
use super::engine::{bundle, reactor, start};
use super::exit::{Exit, Usage, refused};
use super::printer::Printer;

/// Time reserved before an invocation's deadline: interrupted code gets up to half a second more,
/// and the answer has to be sent.
const MARGIN: Duration = Duration::from_secs(1);
/// Minimum time limit of the code.
const LEAST: Duration = Duration::from_millis(1);

#[derive(Debug, Args)]
pub(super) struct LambdaArgs {
    /// Address of Lambda's runtime API as HOST:PORT [env: AWS_LAMBDA_RUNTIME_API]
    #[arg(long, value_name = "ADDRESS")]
    api: Option<String>,
}

/// Answers invocations until the process is stopped.
pub(super) fn lambda(
    args: &LambdaArgs,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    let named = || std::env::var("AWS_LAMBDA_RUNTIME_API").ok();
    let Some(address) = args.api.clone().or_else(named) else {
        return Err(Usage::new("AWS_LAMBDA_RUNTIME_API is not set")
            .hint("Lambda sets it where this is a function's `bootstrap`: see docs/guide/deploy.md")
            .into());
    };
    let api = Api::at(&address);
    let runtime = match prepared(global, printer) {
        Ok(runtime) => runtime,
        Err(error) => {
            api.failed_to_start(&failure(&error))?;
            return Err(error.into());
        }
    };
    let reactor = reactor()?;
    loop {
        let invocation = api.next()?;
        match reactor.block_on(answer(&runtime, &invocation)) {
            Ok(outcome) => api.respond(&invocation.id, &outcome)?,
            Err(failure) => api.fail(&invocation.id, &failure)?,
        }
    }
}

/// Starts the engine and loads all images of its bundle: init time is not billed as run time.
fn prepared(global: &Global, printer: &Arc<Printer>) -> Result<Runtime, Error> {
    let runtime = start(global, printer)?;
    if bundle(global).is_some() {
        let images = runtime.images();
        for image in images.list()? {
            images.prepare(&image.name)?;
        }
    }
    Ok(runtime)
}

/// Runs the request of an invocation before its deadline.
async fn answer(runtime: &Runtime, invocation: &Invocation) -> Result<Vec<u8>, Value> {
    let asked: RunRequest = serde_json::from_slice(&invocation.event).map_err(|error| {
        error_of("request", &format!("the event is not a valid request: {error}"))
    })?;
    let mut request = asked.into_request(HostPaths::Refused).map_err(|e| failure(&e.into()))?;
    let left = time_left(invocation.deadline, SystemTime::now());
    let wanted = request.limits.timeout.unwrap_or(runtime.defaults().timeout);
    request.limits.timeout = Some(wanted.min(left));
    let run = runtime.run(request).await.map_err(|error| failure(&error))?;
    to_json(&run.outcome)
}

fn to_json(outcome: &Outcome) -> Result<Vec<u8>, Value> {
    serde_json::to_vec(outcome).map_err(|error| error_of("outcome", &error.to_string()))
}

/// Time limit for code that must have answered by `deadline`.
fn time_left(deadline: SystemTime, now: SystemTime) -> Duration {
    let left = deadline.duration_since(now).unwrap_or_default();
    left.saturating_sub(MARGIN).max(LEAST)
}

/// An engine error in Lambda's format.
fn failure(error: &Error) -> Value {
    let message = match error {
        Error::Refused(refusal) => refused(refusal, |_| None),
        _ => error.with_causes(),
    };
    let hint = error.hint().map(|hint| format!(" ({hint})")).unwrap_or_default();
    error_of(error.code(), &format!("{message}{hint}"))
}

fn error_of(code: &str, message: &str) -> Value {
    json!({"errorType": format!("belljar.{code}"), "errorMessage": message, "stackTrace": []})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_ends_before_the_invocation_does() {
        let now = SystemTime::now();
        let after = |ms| now + Duration::from_millis(ms);
        assert_eq!(time_left(after(30_000), now), Duration::from_secs(29));
        assert_eq!(time_left(after(900), now), LEAST);
        assert_eq!(time_left(now - Duration::from_secs(5), now), LEAST);
    }
}
