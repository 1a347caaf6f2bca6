//! Metrics in Prometheus format.

use std::fmt::Write;
use std::sync::Mutex;

use belljar::Outcome;
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
use crate::lock::lock;

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

/// Metrics of a service.
pub(crate) struct Metrics {
    registry: Mutex<Registry>,
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
}

/// Upper bounds of the histogram of run times, in seconds.
const SECONDS: [f64; 13] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 60.0];

impl Metrics {
    pub(super) fn new() -> Self {
        let metrics = Self {
            registry: Mutex::new(Registry::with_prefix("belljar")),
            runs: Family::default(),
            work: Family::default(),
            refusals: Family::default(),
            seconds: Histogram::new(SECONDS),
            fuel: Counter::default(),
            under_way: Gauge::default(),
            sessions: Family::default(),
            memory: Gauge::default(),
            held: Gauge::default(),
            budget: Gauge::default(),
            descriptors: Gauge::default(),
            stored: Family::default(),
            kept: Gauge::default(),
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
        drop(registry);
        metrics
    }

    pub(super) fn ran(&self, outcome: &Outcome) {
        let kind = match &outcome.error_detail {
            Some(detail) => format!("{:?}", detail.kind).to_lowercase(),
            None => "success".to_owned(),
        };
        self.runs.get_or_create(&Kind { kind }).inc();
        self.seconds.observe(outcome.usage.wall_ms / 1000.0);
    }

    pub(super) fn worked(&self, what: &'static str) {
        self.work.get_or_create(&What { what }).inc();
    }

    pub(super) fn used(&self, fuel: u64) {
        self.fuel.inc_by(fuel);
    }

    pub(super) fn refused(&self, error: &ServiceError) {
        self.refusals.get_or_create(&Code { code: error.code() }).inc();
    }
}

impl Service {
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
        if let Some(bytes) = memory::resident() {
            metrics.memory.set(gauge(bytes as usize));
        }
        let (held, budget) = self.shared.memory();
        metrics.held.set(gauge(held.unwrap_or_default() as usize));
        metrics.budget.set(gauge(budget.unwrap_or_default() as usize));
        if let Ok(open) = std::fs::read_dir("/proc/self/fd") {
            metrics.descriptors.set(gauge(open.count()));
        }
        let registry = lock(&metrics.registry);
        let mut text = String::new();
        if encode(&mut text, &registry).is_err() {
            let _ = text.write_str("# EOF\n");
        }
        text
    }
}

fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
