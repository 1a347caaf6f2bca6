//! The engine of a kernel, started with the first session. Setup may take minutes, and its progress
//! is reported to the kernel's clients.

use std::sync::{Arc, PoisonError};

use belljar::progress::{Progress, Stage};
use belljar::{Request, Runtime, RuntimeBuilder, SessionOptions};
use belljar_kernel::{Backend, Doing, Failure, Guest};
use tokio::sync::Mutex;

use crate::args::Global;
use crate::engine;
use crate::lockdown::LockdownArgs;
use crate::printer::Printer;
use crate::progress::Bars;

/// An engine that is started on first use.
pub(super) struct Starting {
    builder: RuntimeBuilder,
    runtime: Engine,
    stages: Arc<Stages>,
    start: Request,
    lockdown: LockdownArgs,
    printer: Arc<Printer>,
}

/// The runtime, once it is started. Dropping it removes its files.
pub(super) type Engine = Arc<Mutex<Option<Runtime>>>;

/// Progress, on stderr and for the waiting clients.
struct Stages {
    bars: Arc<Bars>,
    under_way: std::sync::Mutex<Vec<(Stage, String)>>,
}

impl Starting {
    pub(super) fn new(
        global: &Global,
        printer: &Arc<Printer>,
        start: Request,
        lockdown: LockdownArgs,
    ) -> Self {
        let bars = Arc::new(Bars::new(printer));
        let stages = Arc::new(Stages {
            bars: Arc::clone(&bars),
            under_way: std::sync::Mutex::default(),
        });
        Self {
            builder: engine::configure(global, &bars).progress(stages.clone()),
            runtime: Engine::default(),
            stages,
            start,
            lockdown,
            printer: Arc::clone(printer),
        }
    }

    /// A handle to the engine, to end it with the kernel.
    pub(super) fn engine(&self) -> Engine {
        Arc::clone(&self.runtime)
    }

    /// The same, in a process that is locked down. The ports are bound already.
    fn locked(&self, runtime: Runtime) -> Result<Runtime, Failure> {
        if let Some(locking) = self.lockdown.begin(&runtime, &self.printer) {
            let locked = locking.note_cache(&runtime).keep_inputs(&self.start).lock();
            locked.map_err(|error| Failure::new("BelljarError", error.to_string()))?;
        }
        Ok(runtime)
    }

    async fn runtime(&self) -> Result<Runtime, Failure> {
        let mut runtime = self.runtime.lock().await;
        if let Some(runtime) = &*runtime {
            return Ok(runtime.clone());
        }
        let (builder, start) = (self.builder.clone(), self.start.clone());
        let building = tokio::task::spawn_blocking(move || {
            let runtime = builder.build()?;
            engine::prepare(&runtime, &start, None)?;
            Ok::<_, belljar::Error>(runtime)
        });
        let built = match building.await {
            Ok(built) => self.locked(built?)?,
            Err(panic) => return Err(Failure::new("BelljarError", panic.to_string())),
        };
        Ok(runtime.insert(built).clone())
    }
}

impl Backend for Starting {
    fn open(&self) -> Doing<'_, Result<Box<dyn Guest>, Failure>> {
        Box::pin(async {
            let runtime = self.runtime().await?;
            // A notebook has no way to go back in its history.
            let options = SessionOptions::from_request(self.start.clone()).history(0, 0);
            Ok(Box::new(runtime.session(options).await?) as Box<dyn Guest>)
        })
    }

    fn progress(&self) -> Option<String> {
        let stages = self.stages.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        stages.last().map(|(_, text)| text.clone())
    }
}

impl Progress for Stages {
    fn begin(&self, stage: Stage, subject: &str) {
        self.bars.begin(stage, subject);
        let space = if subject.is_empty() { "" } else { " " };
        let seconds = stage.usually().as_secs();
        let what = stage.describe();
        let text = format!("belljar: {what}{space}{subject}, usually about {seconds} s");
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner).push((stage, text));
    }

    fn end(&self, stage: Stage) {
        self.bars.end(stage);
        let mut under_way = self.under_way.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = under_way.iter().rposition(|(one, _)| *one == stage) {
            under_way.remove(last);
        }
    }
}
