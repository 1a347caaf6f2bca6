//! The front: the process that clients connect to when each account has its own process.
//!
//! The front authenticates requests and forwards them to the account's worker. It runs no guest. A
//! worker is the same server behind a pair of sockets (`inside`), started by a third process
//! (`spawner`). Requests without a valid key or token are answered by the front's own copy of the
//! interfaces, which accepts no key.

mod account;
mod audit;
mod channel;
mod hello;
mod inside;
mod log;
mod metrics;
mod pass;
mod process;
mod relay;
mod signed;
mod spawner;
mod whose;
mod worker;
mod workers;

use std::fmt::Write;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::response::{IntoResponse, Response};
use futures_util::future::join_all;
use tokio::sync::Mutex;
use tower::ServiceExt;

pub use inside::{Shutdown, WorkerChannel};
pub use process::WorkerProcess;
pub use spawner::{Spawner, is_kept, spawn_workers};
pub use workers::WorkerOptions;

use self::account::Account;
use self::metrics::Pages;
use self::pass::pass;
use self::signed::Listed;
use self::whose::{Tags, Whose};
use self::workers::{NOBODY, Trouble, Workers};
use crate::http::app::App;
use crate::http::face::Face;
use crate::http::health::{OPEN_METRICS, check_operator};
use crate::http::problem::Problem;
use crate::service::Service;

/// How long a result of `/readyz` is reused.
const STANDS: Duration = Duration::from_secs(2);
/// Time limit of the front's own requests to workers.
const PATIENCE: Duration = Duration::from_secs(15);
/// Time limit of requests to all workers, which other accounts wait for.
const PATIENCE_WITH_ALL: Duration = Duration::from_secs(3);
/// Maximum size of their responses, in bytes.
const MAX_PAGE: usize = 1 << 20;

/// The front of a server. Cheap to clone.
#[derive(Clone)]
pub struct Front(Arc<Inner>);

struct Inner {
    app: App,
    workers: Arc<Workers>,
    tags: Tags,
    listed: Listed,
    /// Answers requests without a valid key or token.
    own: Router,
    ready: Mutex<Option<(Instant, Option<String>)>>,
}

impl Front {
    /// Creates the front of `app`, whose service is stopped. `own` answers unauthenticated requests
    /// and must accept no key. Starts a first worker to test that code runs.
    ///
    /// # Errors
    ///
    /// Fails if the store fails, or the first worker cannot run code.
    pub(crate) async fn new(
        app: App,
        own: Router,
        spawner: Spawner,
        options: WorkerOptions,
    ) -> io::Result<Self> {
        let workers =
            Workers::new(spawner, app.keys().clone(), options, app.service().audit().cloned())
                .await?;
        let front = Self(Arc::new(Inner {
            app,
            workers,
            tags: Tags::default(),
            listed: Listed::default(),
            own,
            ready: Mutex::default(),
        }));
        match front.probe().await {
            Some(_) => Ok(front),
            None => Err(io::Error::other("the first worker does not run code; the log says why")),
        }
    }

    /// Answers all requests.
    pub(crate) fn routes(&self) -> Router<App> {
        let front = self.clone();
        Router::new().fallback(move |State(_): State<App>, request: Request| {
            let front = front.clone();
            async move { Box::pin(front.answer(request)).await }
        })
    }

    async fn answer(&self, request: Request) -> Response {
        let inner = &self.0;
        if [Method::GET, Method::HEAD].contains(request.method()) {
            match request.uri().path() {
                "/readyz" => return self.ready().await,
                "/metrics" => {
                    let headers = request.headers().clone();
                    let page = self.metrics(&headers).await;
                    return page.unwrap_or_else(IntoResponse::into_response);
                }
                _ => {}
            }
        }
        let (app, workers) = (&inner.app, &inner.workers);
        let whose = Whose::of(&request, app.keys(), app.settings(), workers, &inner.tags);
        let whose = match whose {
            None if app.settings().faces.has(Face::E2b) => {
                let uri = request.uri().clone();
                let account = inner.listed.signer(&uri, || self.sandboxes()).await;
                account.and_then(|account| Whose::of_sandbox(account, app.keys()))
            }
            whose => whose,
        };
        match whose {
            Some(whose) if !(whose.has_key && is_page(request.uri().path())) => {
                pass(workers, app.settings(), whose, request).await
            }
            _ => inner.own.clone().oneshot(request).await.unwrap_or_else(|never| match never {}),
        }
    }

    /// The sandboxes of all running workers, as pages of E2B's control plane.
    async fn sandboxes(&self) -> Vec<(Arc<Account>, String)> {
        let pages = self.pages("/sandboxes").await;
        pages.into_iter().filter_map(|(account, page)| Some((account, page?))).collect()
    }

    /// Requests a page from all running workers at once.
    async fn pages(&self, path: &'static str) -> Vec<(Arc<Account>, Option<String>)> {
        let all = self.0.workers.all().into_iter();
        let running = all.filter(|account| account.name != NOBODY && account.live().is_some());
        join_all(running.map(|account| async move {
            let page = self.page(&account, path, PATIENCE_WITH_ALL).await;
            (account, page)
        }))
        .await
    }

    async fn ready(&self) -> Response {
        let mut ready = self.0.ready.lock().await;
        if ready.as_ref().is_none_or(|(when, _)| when.elapsed() > STANDS) {
            *ready = Some((Instant::now(), self.probe().await));
        }
        let Some((_, Some(page))) = &*ready else {
            let detail = "the server does not run code";
            let problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, "not_ready", detail);
            return problem.into_response();
        };
        let mut text = "ready\n".to_owned();
        if let Some(held) = self.0.app.lockdown().get() {
            let _ = writeln!(text, "lock-down: {held}");
        }
        for line in page.lines().filter(|line| line.starts_with("lock-down: ")) {
            let _ = writeln!(text, "worker {line}");
        }
        text.into_response()
    }

    /// Returns the `/readyz` page of a worker that runs code for this test only.
    async fn probe(&self) -> Option<String> {
        let account = self.0.workers.account(NOBODY);
        // A worker that has exited is replaced.
        for _ in 0..2 {
            match self.0.workers.enter(&account).await {
                Ok(_) => return self.page(&account, "/readyz", PATIENCE).await,
                Err(Trouble::Ended(_)) => {}
                Err(_) => return None,
            }
        }
        None
    }

    /// Requests a page from an account's worker, if it is running.
    async fn page(&self, account: &Account, path: &str, patience: Duration) -> Option<String> {
        let user = account.enter()?.unnoticed();
        let request = Request::get(format!("http://worker{path}"))
            .header(AUTHORIZATION, user.0.authorization.clone())
            .body(Body::empty());
        let read = async {
            let answer = user.0.ask(request.ok()?).await.ok()?;
            let is_fine = answer.status() == StatusCode::OK;
            let body = axum::body::to_bytes(Body::new(answer.into_body()), MAX_PAGE).await.ok()?;
            is_fine.then(|| String::from_utf8(body.into()).ok()).flatten()
        };
        tokio::time::timeout(patience, read).await.ok().flatten()
    }

    async fn metrics(&self, headers: &HeaderMap) -> Result<Response, Problem> {
        check_operator(&self.0.app, headers)?;
        let mut pages = Pages::with_families_of(&Service::metric_families());
        // Requests that no worker saw.
        let own = self.0.app.service().metrics();
        let is_http =
            |line: &&str| line.contains("belljar_http_") || line.contains("belljar_audit_");
        pages.add("", &own.lines().filter(is_http).collect::<Vec<_>>().join("\n"));
        let (mut workers, mut silent) = (0, 0);
        for (account, page) in self.pages("/metrics").await {
            workers += 1;
            match page {
                Some(page) => pages.add(&account.name, &page),
                None => silent += 1,
            }
        }
        Ok(([(CONTENT_TYPE, OPEN_METRICS)], pages.page(workers, silent)).into_response())
    }

    /// Waits until the spawner has exited.
    pub(crate) async fn broken(&self) {
        self.0.workers.broken.cancelled().await;
    }

    /// Stops all workers, which save their sessions.
    pub(crate) async fn stop(&self) {
        self.0.workers.stop().await;
    }
}

/// Whether this is a page that needs no key. Scripts run in such pages, so they do not come from
/// workers.
fn is_page(path: &str) -> bool {
    path == "/" || path == "/v1/docs" || path.starts_with("/console/")
}
