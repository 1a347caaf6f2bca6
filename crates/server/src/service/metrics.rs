//! Metrics in Prometheus format.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Mutex;

use axum::http::{Method, StatusCode};
use belljar::Outcome;
use belljar::request::Waited;
use belljar::session::SessionStatus;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::Service;
use super::error::ServiceError;
use super::memory;
use super::owner::Owner;
use crate::audit::AuditLog;
use crate::lock::lock;

/// Accounts with series of their own. Further accounts share [`OTHERS`].
const MAX_ACCOUNTS: usize = 256;
/// Label of accounts beyond [`MAX_ACCOUNTS`].
const OTHERS: &str = "_others";
/// Label of requests that match no route.
const NO_ROUTE: &str = "none";

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Kind {
    kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Code {
    code: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Status {
    status: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct What {
    what: &'static str,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Request {
    method: &'static str,
    route: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Account {
    account: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AccountStatus {
    account: String,
    status: u16,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct AccountKind {
    account: String,
    kind: String,
}

/// An operation of a store.
#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
pub(super) struct Operation {
    pub operation: &'static str,
}

/// Durations of a store's operations.
pub(super) type StoreTimes = Family<Operation, Histogram, fn() -> Histogram>;

/// Metrics of a service.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
    requests: Family<Request, Counter>,
    accounts: Mutex<BTreeSet<String>>,
    account_requests: Family<AccountStatus, Counter>,
    account_runs: Family<AccountKind, Counter>,
    account_fuel: Family<Account, Counter>,
    queue: Histogram,
    start: Histogram,
    store: StoreTimes,
    runs: Family<Kind, Counter>,
    work: Family<What, Counter>,
    refusals: Family<Code, Counter>,
    seconds: Histogram,
    fuel: Counter,
    under_way: Gauge,
    sessions: Family<Status, Gauge>,
    memory: Gauge,
    held: Gauge,
    budget: Gauge,
    descriptors: Gauge,
    stored: Family<What, Gauge>,
    kept: Gauge,
    audit_lost: Gauge,
}

/// Upper bounds of all histograms, in seconds.
const SECONDS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

impl Metrics {
    pub(super) fn new() -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("belljar")),
            requests: Family::default(),
            accounts: Mutex::default(),
            account_requests: Family::default(),
            account_runs: Family::default(),
            account_fuel: Family::default(),
            queue: histogram(),
            start: histogram(),
            store: Family::new_with_constructor(histogram),
            runs: Family::default(),
            work: Family::default(),
            refusals: Family::default(),
            seconds: histogram(),
            fuel: Counter::default(),
            under_way: Gauge::default(),
            sessions: Family::default(),
            memory: Gauge::default(),
            held: Gauge::default(),
            budget: Gauge::default(),
            descriptors: Gauge::default(),
            stored: Family::default(),
            kept: Gauge::default(),
            audit_lost: Gauge::default(),
        };
        let mut registry = lock(&metrics.registry);
        registry.register("runs", "Finished runs by outcome", metrics.runs.clone());
        registry.register(
            "other_work",
            "Guest code executed in sessions outside runs, by purpose",
            metrics.work.clone(),
        );
        registry.register(
            "refusals",
            "Runs and other guest work that were refused or failed in the engine",
            metrics.refusals.clone(),
        );
        registry.register("run_seconds", "Wall clock time of runs", metrics.seconds.clone());
        registry.register(
            "queue_seconds",
            "Time that runs waited for their turn",
            metrics.queue.clone(),
        );
        registry.register(
            "start_seconds",
            "Time from a run's turn until its code began",
            metrics.start.clone(),
        );
        registry.register(
            "store_seconds",
            "Time of operations on the store",
            metrics.store.clone(),
        );
        registry.register(
            "http_requests",
            "Requests by method, route and status",
            metrics.requests.clone(),
        );
        registry.register(
            "account_requests",
            "Requests by account and status",
            metrics.account_requests.clone(),
        );
        registry.register(
            "account_runs",
            "Finished runs by account and outcome",
            metrics.account_runs.clone(),
        );
        registry.register("account_fuel", "Fuel used by account", metrics.account_fuel.clone());
        registry.register(
            "fuel",
            "Fuel used by all runs and other guest work",
            metrics.fuel.clone(),
        );
        registry.register(
            "runs_under_way",
            "Runs and other guest work in progress or queued",
            metrics.under_way.clone(),
        );
        registry.register("sessions", "Sessions by status", metrics.sessions.clone());
        registry.register(
            "resident_bytes",
            "Resident memory of this process",
            metrics.memory.clone(),
        );
        registry.register(
            "held_bytes",
            "Memory of this process including session states and excluding file pages",
            metrics.held.clone(),
        );
        registry.register(
            "memory_budget_bytes",
            "Memory budget of this process, or 0 without a budget",
            metrics.budget.clone(),
        );
        registry.register(
            "open_descriptors",
            "Open file descriptors of this process",
            metrics.descriptors.clone(),
        );
        registry.register(
            "stored_sessions",
            "Operations of this server on sessions in the store since its start",
            metrics.stored.clone(),
        );
        registry.register(
            "kept_bytes",
            "Stored files of runs, results and responses",
            metrics.kept.clone(),
        );
        registry.register(
            "audit_lost_records",
            "Records of the audit log that could not be written since the start",
            metrics.audit_lost.clone(),
        );
        drop(registry);
        metrics
    }

    fn page(&self) -> String {
        let registry = lock(&self.registry);
        let mut text = String::new();
        if encode(&mut text, &registry).is_err() {
            let _ = text.write_str("# EOF\n");
        }
        text
    }

    pub(super) fn ran(&self, owner: &Owner, outcome: &Outcome, waited: Option<Waited>) {
        let kind = kind_of(outcome);
        let account = self.account(owner);
        let by_account = AccountKind {
            account,
            kind: kind.clone(),
        };
        self.account_runs.get_or_create(&by_account).inc();
        self.runs.get_or_create(&Kind { kind }).inc();
        self.seconds.observe(outcome.usage.wall_ms / 1000.0);
        if let Some(Waited { queue, start, .. }) = waited {
            self.queue.observe(queue.as_secs_f64());
            self.start.observe(start.as_secs_f64());
        }
    }

    /// Counts a response. `route` is the path's template.
    fn answered(
        &self,
        method: &Method,
        route: Option<&str>,
        status: StatusCode,
        owner: Option<&Owner>,
    ) {
        let status = status.as_u16();
        let request = Request {
            method: method_name(method),
            route: route.unwrap_or(NO_ROUTE).to_owned(),
            status,
        };
        self.requests.get_or_create(&request).inc();
        if let Some(owner) = owner {
            let account = self.account(owner);
            self.account_requests.get_or_create(&AccountStatus { account, status }).inc();
        }
    }

    /// The label of an account.
    fn account(&self, owner: &Owner) -> String {
        let mut accounts = lock(&self.accounts);
        if accounts.contains(owner.name()) {
            return owner.name().to_owned();
        }
        if accounts.len() >= MAX_ACCOUNTS {
            return OTHERS.to_owned();
        }
        accounts.insert(owner.name().to_owned());
        owner.name().to_owned()
    }

    /// Durations of a store's operations.
    pub(super) fn store_times(&self) -> StoreTimes {
        self.store.clone()
    }

    pub(super) fn worked(&self, what: &'static str) {
        self.work.get_or_create(&What { what }).inc();
    }

    pub(super) fn used(&self, owner: &Owner, fuel: u64) {
        self.fuel.inc_by(fuel);
        let account = self.account(owner);
        self.account_fuel.get_or_create(&Account { account }).inc_by(fuel);
    }

    pub(super) fn refused(&self, error: &ServiceError) {
        self.refusals.get_or_create(&Code { code: error.code() }).inc();
    }
}

impl Service {
    /// Counts a response. `route` is the path's template, if the path matched one.
    pub(crate) fn answered(
        &self,
        method: &Method,
        route: Option<&str>,
        status: StatusCode,
        owner: Option<&Owner>,
    ) {
        self.shared.metrics.answered(method, route, status, owner);
    }

    /// A page with all families. Pages of services leave out those that have no series yet.
    pub(crate) fn metric_families() -> String {
        let metrics = Metrics::new();
        let (account, kind) = (String::new(), String::new());
        let request = Request {
            method: "",
            route: String::new(),
            status: 0,
        };
        metrics.requests.get_or_create(&request).inc();
        let status = AccountStatus {
            account: account.clone(),
            status: 0,
        };
        metrics.account_requests.get_or_create(&status).inc();
        let by_account = AccountKind {
            account: account.clone(),
            kind: kind.clone(),
        };
        metrics.account_runs.get_or_create(&by_account).inc();
        metrics.account_fuel.get_or_create(&Account { account }).inc();
        metrics.store.get_or_create(&Operation { operation: "" }).observe(0.0);
        metrics.runs.get_or_create(&Kind { kind }).inc();
        metrics.work.get_or_create(&What { what: "" }).inc();
        metrics.refusals.get_or_create(&Code { code: "" }).inc();
        metrics.sessions.get_or_create(&Status { status: "" }).inc();
        metrics.stored.get_or_create(&What { what: "" }).inc();
        metrics.page()
    }

    /// All metrics as Prometheus text.
    #[must_use]
    pub fn metrics(&self) -> String {
        let metrics = &self.shared.metrics;
        metrics.under_way.set(gauge(self.under_way()));
        for status in ["idle", "running", "suspended", "failed"] {
            metrics.sessions.get_or_create(&Status { status }).set(0);
        }
        for info in self.shared.runtime.sessions().list() {
            let status = match info.status {
                SessionStatus::Idle => "idle",
                SessionStatus::Running => "running",
                SessionStatus::Suspended => "suspended",
                _ => "failed",
            };
            metrics.sessions.get_or_create(&Status { status }).inc();
        }
        if let Some(stored) = self.stored_sessions() {
            let counts = stored.counts();
            for (what, count) in [
                ("woken", counts.woken),
                ("found", counts.found),
                ("written", counts.written),
                ("taken_over", counts.taken_over),
                ("lost", counts.lost),
            ] {
                metrics.stored.get_or_create(&What { what }).set(gauge(count as usize));
            }
        }
        metrics.kept.set(gauge(self.shared.cached_bytes() as usize));
        let lost = self.audit().map_or(0, AuditLog::lost);
        metrics.audit_lost.set(gauge(lost as usize));
        if let Some(bytes) = memory::resident() {
            metrics.memory.set(gauge(bytes as usize));
        }
        let (held, budget) = self.shared.memory();
        metrics.held.set(gauge(held.unwrap_or_default() as usize));
        metrics.budget.set(gauge(budget.unwrap_or_default() as usize));
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            metrics.descriptors.set(gauge(open.count()));
        }
        metrics.page()
    }
}

/// `success`, or the kind of the error.
pub(super) fn kind_of(outcome: &Outcome) -> String {
    match &outcome.error_detail {
        Some(detail) => format!("{:?}", detail.kind).to_lowercase(),
        None => "success".to_owned(),
    }
}

fn histogram() -> Histogram {
    Histogram::new(SECONDS)
}

/// The method's name, of a bounded number: clients may send others.
fn method_name(method: &Method) -> &'static str {
    let known = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];
    known.into_iter().find(|name| method == name).unwrap_or("other")
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::owner::KeyLimits;

    #[test]
    fn all_families_are_listed() {
        let source = include_str!("metrics.rs").lines();
        let registered = source.filter(|line| line.trim().starts_with("registry.register("));
        let families = Service::metric_families();
        let listed = families.lines().filter(|line| line.starts_with("# TYPE "));
        assert_eq!(listed.count(), registered.count(), "{families}");
    }

    #[test]
    fn series_are_bounded() {
        let metrics = Metrics::new();
        for n in 0..1000 {
            let owner = Owner::new(format!("account{n}"), KeyLimits::default());
            let method = Method::from_bytes(format!("M{n}").as_bytes()).unwrap();
            metrics.answered(&method, None, StatusCode::OK, Some(&owner));
            metrics.used(&owner, 1);
        }
        let page = metrics.page();
        let count = |name: &str| page.lines().filter(|line| line.starts_with(name)).count();
        assert_eq!(count("belljar_account_requests_total{"), MAX_ACCOUNTS + 1);
        assert_eq!(count("belljar_account_fuel_total{"), MAX_ACCOUNTS + 1);
        assert!(page.contains("belljar_account_fuel_total{account=\"_others\"} 744\n"));
        let line = "belljar_http_requests_total{method=\"other\",route=\"none\",status=\"200\"}";
        assert_eq!(count("belljar_http_requests_total{"), 1);
        assert!(page.contains(&format!("{line} 1000\n")), "{page}");
    }
}
