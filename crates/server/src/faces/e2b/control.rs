//! The control plane: create, find, list, pause, fork and kill sandboxes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::extract::{Extension, Path, Query, Request, State as FromState};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};

use super::fault::Fault;
use super::record::sizes;
use super::registry::{DEFAULT_TIMEOUT, Sandboxes, is_alive, is_wanted, seconds, timestamp};
use super::sandbox::Sandbox;
use super::target::{Caller, json_body};
use super::wire::{
    Connect, Created, Detail, Fork, Forked, Lifecycle, Listing, Network, NewSandbox, NewSnapshot,
    Pause, Refresh, State, Timeout,
};
use crate::http::app::App;
use crate::http::stored_responses::ValidWhile;
use crate::service::guest_work::detached;

/// The envd version that clients derive features from: uploads as raw bytes, no file metadata.
const ENVD_VERSION: &str = "0.6.1";
const CLIENT: &str = "belljar";
/// Maximum number of sandboxes that one fork request creates.
const MAX_FORKS: u32 = 100;
/// Maximum number of entries on one page.
const MAX_PAGE: usize = 100;
/// How long a pause waits for a run to end.
const PATIENCE: Duration = Duration::from_secs(20);

type All = Extension<Arc<Sandboxes>>;

/// `POST /sandboxes`, `POST /v2/sandboxes`.
pub(super) async fn create(
    Caller(owner): Caller,
    FromState(app): FromState<App>,
    Extension(all): All,
    request: Request,
) -> Result<Response, Fault> {
    let asked: NewSandbox = json_body(&owner, request).await?;
    let sandbox = all.create(&owner, asked).await?;
    let mut response =
        (StatusCode::CREATED, Json(created(&app, &all, &sandbox).await?)).into_response();
    let made = Arc::downgrade(&sandbox);
    let is_alive = move || made.upgrade().is_some_and(|made| is_alive(&made));
    response.extensions_mut().insert(ValidWhile::Other(Arc::new(is_alive)));
    Ok(response)
}

/// `GET /sandboxes/{id}`.
pub(super) async fn get(
    Caller(owner): Caller,
    FromState(app): FromState<App>,
    Extension(all): All,
    Path(id): Path<String>,
) -> Result<Json<Detail>, Fault> {
    let sandbox = all.find(&owner, &id).await?;
    let token = Some(sandbox.token.clone());
    Ok(Json(Detail {
        envd_access_token: token,
        ..detail(&app, &sandbox)
    }))
}

/// `GET /v2/sandboxes`, and the older `GET /sandboxes`.
pub(super) async fn list(
    Caller(owner): Caller,
    FromState(app): FromState<App>,
    Extension(all): All,
    Query(listing): Query<Listing>,
) -> Result<Response, Fault> {
    let metadata = metadata(listing.metadata.as_deref());
    let after = match listing.started_after.as_deref().map(DateTime::parse_from_rfc3339) {
        Some(Err(_)) => return Err(Fault::invalid("startedAfter is not a time")),
        Some(Ok(after)) => Some(after.with_timezone(&Utc)),
        None => None,
    };
    let mut found = all.list(&owner).await?;
    found.retain(|sandbox| {
        is_wanted(listing.state.as_deref(), sandbox.lease().state)
            && metadata.iter().all(|(name, value)| sandbox.config.metadata.get(name) == Some(value))
            && after.is_none_or(|after| DateTime::<Utc>::from(sandbox.started) >= after)
            && listing.template.as_ref().is_none_or(|template| sandbox.config.template == *template)
    });
    if listing.order.as_deref() == Some("asc") {
        found.reverse();
    }
    let details: Vec<Detail> = found.iter().map(|sandbox| detail(&app, sandbox)).collect();
    page(&details, listing.limit, listing.next_token.as_deref())
}

/// `DELETE /sandboxes/{id}`.
pub(super) async fn kill(
    Caller(owner): Caller,
    Extension(all): All,
    Path(id): Path<String>,
) -> Result<StatusCode, Fault> {
    all.kill(&owner, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /v2/sandboxes/{id}/connect`, and the older paths.
pub(super) async fn connect(
    Caller(owner): Caller,
    FromState(app): FromState<App>,
    Extension(all): All,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<Created>, Fault> {
    let asked: Connect = json_body(&owner, request).await?;
    let duration = seconds(asked.timeout.unwrap_or(DEFAULT_TIMEOUT))?;
    let sandbox = all.find(&owner, &id).await?;
    sandbox.resume(duration, asked.memory.unwrap_or(true)).await?;
    Ok(Json(created(&app, &all, &sandbox).await?))
}

/// `POST /sandboxes/{id}/timeout`.
pub(super) async fn set_timeout(
    Caller(owner): Caller,
    Extension(all): All,
    Path(id): Path<String>,
    request: Request,
) -> Result<StatusCode, Fault> {
    let asked: Timeout = json_body(&owner, request).await?;
    all.find(&owner, &id).await?.set_timeout(seconds(asked.timeout)?).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /sandboxes/{id}/refreshes`.
pub(super) async fn refresh(
    Caller(owner): Caller,
    Extension(all): All,
    Path(id): Path<String>,
    request: Request,
) -> Result<StatusCode, Fault> {
    let asked: Refresh = json_body(&owner, request).await?;
    let sandbox = all.find(&owner, &id).await?;
    if sandbox.lease().state == State::Running {
        sandbox.resume(seconds(asked.duration.unwrap_or(DEFAULT_TIMEOUT))?, true).await?;
    }
    Ok(StatusCode::NO_CONTENT)
}

/// `POST /sandboxes/{id}/pause`.
pub(super) async fn pause(
    Caller(owner): Caller,
    Extension(all): All,
    Path(id): Path<String>,
    request: Request,
) -> Result<StatusCode, Fault> {
    let asked: Pause = json_body(&owner, request).await?;
    let sandbox = all.find(&owner, &id).await?;
    let (pausing, memory) = (Arc::clone(&sandbox), asked.memory.unwrap_or(true));
    if detached(async move { pausing.pause(memory, PATIENCE).await }).await? {
        Ok(StatusCode::NO_CONTENT)
    } else {
        Err(Fault::new(StatusCode::CONFLICT, format!("sandbox \"{id}\" is already paused")))
    }
}

/// `POST /sandboxes/{id}/fork`.
pub(super) async fn fork(
    Caller(owner): Caller,
    FromState(app): FromState<App>,
    Extension(all): All,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Fault> {
    let asked: Fork = json_body(&owner, request).await?;
    let count = asked.count.unwrap_or(1);
    if !(1..=MAX_FORKS).contains(&count) {
        return Err(Fault::invalid(format!("count is {count}; it must be from 1 to {MAX_FORKS}")));
    }
    let lease = seconds(asked.timeout.unwrap_or(DEFAULT_TIMEOUT))?;
    let sandbox = all.find(&owner, &id).await?;
    let mut forks = Vec::new();
    for _ in 0..count {
        forks.push(match all.fork(&sandbox, lease).await {
            Ok(fork) => Forked::Sandbox(created(&app, &all, &fork).await?),
            Err(fault) => Forked::Error {
                code: fault.status.as_u16(),
                message: fault.message,
            },
        });
    }
    Ok((StatusCode::CREATED, Json(forks)).into_response())
}

/// `POST /sandboxes/{id}/snapshots`.
pub(super) async fn snapshot(
    Caller(owner): Caller,
    Extension(all): All,
    Path(id): Path<String>,
    request: Request,
) -> Result<Response, Fault> {
    let asked: NewSnapshot = json_body(&owner, request).await?;
    let sandbox = all.find(&owner, &id).await?;
    let memory = asked.memory.unwrap_or(true);
    let keep = async move { all.keep_snapshot(&sandbox, asked.name, memory).await };
    let info = detached(keep).await?;
    Ok((StatusCode::CREATED, Json(info)).into_response())
}

/// `GET /snapshots`.
pub(super) async fn snapshots(
    Caller(owner): Caller,
    Extension(all): All,
    Query(listing): Query<Listing>,
) -> Result<Response, Fault> {
    let found = all.snapshots(&owner, listing.sandbox.as_deref(), listing.name.as_deref()).await?;
    page(&found, listing.limit, listing.next_token.as_deref())
}

/// `DELETE /templates/{id}`: deletes a snapshot.
pub(super) async fn drop_snapshot(
    Caller(owner): Caller,
    Extension(all): All,
    Path(id): Path<String>,
) -> Result<StatusCode, Fault> {
    all.drop_snapshot(&owner, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// `GET /sandboxes/{id}/metrics`: always empty.
pub(super) async fn metrics(
    Caller(owner): Caller,
    Extension(all): All,
    Path(id): Path<String>,
) -> Result<Json<[(); 0]>, Fault> {
    all.find(&owner, &id).await?;
    Ok(Json([]))
}

/// `PUT /sandboxes/{id}/network`: sandboxes have no network; requests that would open it fail.
pub(super) async fn network(
    Caller(owner): Caller,
    Extension(all): All,
    Path(id): Path<String>,
    request: Request,
) -> Result<StatusCode, Fault> {
    let asked: Network = json_body(&owner, request).await?;
    all.find(&owner, &id).await?;
    let allows = asked.allow_internet_access == Some(true)
        || asked.allow_out.is_some_and(|allowed| !allowed.is_empty());
    if allows {
        return Err(Fault::invalid("sandboxes have no network"));
    }
    Ok(StatusCode::NO_CONTENT)
}

async fn created(app: &App, all: &Sandboxes, sandbox: &Sandbox) -> Result<Created, Fault> {
    Ok(Created {
        template: sandbox.config.template.clone(),
        sandbox: sandbox.id.clone(),
        client: CLIENT,
        envd_version: ENVD_VERSION,
        envd_access_token: sandbox.token.clone(),
        domain: app.settings().sandbox_domain.clone(),
        traffic_access_token: all.traffic_token(&sandbox.id).await?,
        alias: sandbox.config.template.clone(),
    })
}

fn detail(app: &App, sandbox: &Sandbox) -> Detail {
    let lease = sandbox.lease();
    let (memory_mib, disk_mib) = sizes(&app.service().runtime().ceilings());
    Detail {
        template: sandbox.config.template.clone(),
        alias: sandbox.config.template.clone(),
        sandbox: sandbox.id.clone(),
        client: CLIENT,
        started_at: timestamp(sandbox.started),
        end_at: timestamp(lease.end_at),
        envd_version: ENVD_VERSION,
        cpus: 1,
        memory_mib,
        disk_mib,
        state: lease.state,
        metadata: sandbox.config.metadata.clone(),
        domain: app.settings().sandbox_domain.clone(),
        envd_access_token: None,
        allow_internet_access: false,
        lifecycle: Lifecycle {
            auto_resume: false,
            on_timeout: if sandbox.config.pauses.is_some() {
                "pause"
            } else {
                "kill"
            },
        },
    }
}

/// Parses a metadata filter: `name=value&...`, in which each part is percent-encoded twice.
pub(super) fn metadata(query: Option<&str>) -> BTreeMap<String, String> {
    let unescape = |text: &str| {
        form_urlencoded::parse(format!("{text}=").as_bytes())
            .next()
            .map(|(name, _)| name.into_owned())
    };
    let pairs = form_urlencoded::parse(query.unwrap_or("").as_bytes());
    pairs
        .filter_map(|(name, value)| Some((unescape(&name)?, unescape(&value).unwrap_or_default())))
        .collect()
}

/// Returns the page after the given token, and the token of the next page.
fn page<T: serde::Serialize>(
    all: &[T],
    limit: Option<usize>,
    token: Option<&str>,
) -> Result<Response, Fault> {
    let limit = limit.unwrap_or(MAX_PAGE).clamp(1, MAX_PAGE);
    let start: usize = match token.filter(|token| !token.is_empty()) {
        None => 0,
        Some(token) => token.parse().map_err(|_| {
            Fault::invalid("nextToken is invalid: use the token of an earlier listing")
        })?,
    };
    let rest = all.get(start.min(all.len())..).unwrap_or_default();
    let entries = &rest[..limit.min(rest.len())];
    let mut response = Json(entries).into_response();
    if rest.len() > limit {
        response.headers_mut().insert("x-next-token", HeaderValue::from(start + limit));
    }
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_escaped_twice() {
        // The Python client's filter {"a b": "c&d=é"}, after the query is decoded.
        let found = metadata(Some("a%2520b=c%2526d%253D%25C3%25A9"));
        assert_eq!(found, BTreeMap::from([("a b".into(), "c&d=é".into())]));
        assert_eq!(metadata(Some("k=v")), BTreeMap::from([("k".into(), "v".into())]));
        assert_eq!(metadata(None), BTreeMap::new());
    }
}
