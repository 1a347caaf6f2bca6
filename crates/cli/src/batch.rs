//! `belljar batch`: reads requests as JSON lines, writes an outcome line for each.
//!
//! Each job reads a line, runs it, and reads the next, so that a run does not need to wake a
//! thread. Memory stays bounded for any length of input: few lines are read ahead, and reading
//! pauses while too many answers wait to be written.

mod answers;
mod job;
mod lines;
mod order;

use std::sync::Arc;
#[cfg(feature = "server")]
use std::time::Duration;
use std::time::Instant;

use anyhow::Context;
use belljar::Runtime;
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use super::args::{BatchArgs, Global};
use super::exit::Exit;
use super::interrupt::Interrupt;
use super::printer::Printer;
use super::progress::Bars;
use super::{engine, text};
use answers::{Answers, Out};
use job::{Kind, Place};
use lines::Lines;
use order::Order;

/// Answers per job that may wait to be written; in ordered mode, for an earlier one.
const MAX_WAITING_PER_JOB: usize = 8;
/// Usual number of jobs on a server.
const JOBS_ELSEWHERE: usize = 16;
/// How long a line waits for a server that is busy.
#[cfg(feature = "server")]
const PATIENCE: Duration = Duration::from_mins(10);

/// Runs every line of the input.
pub(super) fn batch(
    args: &BatchArgs,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    #[cfg(feature = "server")]
    let link = args.server.link(global, &args.lockdown, &[])?;
    #[cfg(not(feature = "server"))]
    let link: Option<std::convert::Infallible> = None;
    let input = lines::open(&args.file)?;
    let usual = if link.is_some() {
        JOBS_ELSEWHERE
    } else {
        processors()
    };
    let jobs = args.jobs.map_or(usual, usize::from);
    let bars = Arc::new(Bars::beside_results(printer));
    let place = match link {
        #[cfg(feature = "server")]
        Some(link) => Place::Elsewhere(Box::new(link.patient(PATIENCE))),
        #[cfg(not(feature = "server"))]
        Some(never) => match never {},
        None => Place::Here(here(args, jobs, global, &bars, printer)?),
    };
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(jobs.min(processors()))
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let bar = bars.batch(input.length);
    let out = Out {
        printer: Arc::clone(printer),
        order: Order::new(!args.unordered),
        bar: bar.clone(),
    };
    let interrupt = Interrupt::watch();
    let start = Instant::now();
    let batch = Arc::new(Batch {
        place,
        lines: lines::read_ahead(input)?,
        room: Arc::new(Semaphore::new(jobs * (1 + MAX_WAITING_PER_JOB))),
    });
    let ended = reactor.block_on(drive(batch, jobs, out, &interrupt));
    // Do not wait for an image that another thread is baking.
    reactor.shutdown_background();
    bar.finish_and_clear();
    let tally = match ended? {
        Ended::Whole(tally) => tally,
        Ended::Interrupted(exit) => return Ok(exit),
    };
    printer.note(&tally.describe(start));
    Ok(if tally.refused == 0 {
        Exit::Success
    } else {
        Exit::Found
    })
}

/// An engine, in a process that is locked down.
fn here(
    args: &BatchArgs,
    jobs: usize,
    global: &Global,
    bars: &Arc<Bars>,
    printer: &Printer,
) -> anyhow::Result<Runtime> {
    let runtime = engine::configure(global, bars).concurrency(jobs).build()?;
    if let Some(locking) = args.lockdown.begin(&runtime, printer) {
        // Lines name files of this machine by paths that are relative to it.
        locking.keep(|plan| plan.read(".")).lock()?;
    }
    Ok(runtime)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// How the batch ended.
enum Ended {
    /// Every line was answered.
    Whole(Tally),
    Interrupted(Exit),
}

/// State shared by the jobs.
struct Batch {
    place: Place,
    lines: Lines,
    /// Limits the lines read whose answers are not yet written.
    room: Arc<Semaphore>,
}

/// Runs all jobs until the input ends.
async fn drive(
    batch: Arc<Batch>,
    jobs: usize,
    out: Out,
    interrupt: &Interrupt,
) -> anyhow::Result<Ended> {
    let (answers, mut writing) = out.start();
    let mut running = JoinSet::new();
    for _ in 0..jobs {
        running.spawn(Arc::clone(&batch).work(answers.clone()));
    }
    drop(answers);
    let ended = all_written(&mut running, &mut writing, interrupt).await;
    // Waits until the workspaces of cancelled runs are removed.
    running.shutdown().await;
    if let Ok(Ended::Interrupted(_)) = ended {
        // Finish the write in progress.
        let _ = writing.await;
    }
    ended
}

/// Waits until the last answer is written or the batch is aborted.
async fn all_written(
    running: &mut JoinSet<()>,
    writing: &mut JoinHandle<anyhow::Result<Tally>>,
    interrupt: &Interrupt,
) -> anyhow::Result<Ended> {
    loop {
        tokio::select! {
            biased;
            exit = interrupt.arrived() => return Ok(Ended::Interrupted(exit)),
            written = &mut *writing => {
                return Ok(Ended::Whole(written.context("the answers were lost")??));
            }
            Some(done) = running.join_next() => done.context("a run was lost")?,
        }
    }
}

impl Batch {
    /// Answers lines until the input or the output ends.
    async fn work(self: Arc<Self>, answers: Answers) {
        while let Ok(room) = Arc::clone(&self.room).acquire_owned().await {
            let Some((sequence, line)) = self.lines.next().await else {
                return;
            };
            let answer = job::answer(&self.place, line).await;
            if !answers.send(sequence, answer, room) {
                return;
            }
            // Let timers run before the next run.
            tokio::task::yield_now().await;
        }
    }
}

/// Number of lines by result.
#[derive(Clone, Copy, Debug, Default)]
struct Tally {
    succeeded: u64,
    failed: u64,
    refused: u64,
}

impl Tally {
    fn count(&mut self, kind: Kind) {
        *match kind {
            Kind::Succeeded => &mut self.succeeded,
            Kind::Failed => &mut self.failed,
            Kind::Refused => &mut self.refused,
        } += 1;
    }

    fn describe(&self, start: Instant) -> String {
        format!("{self} in {}", text::duration(start.elapsed()))
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        let all = self.succeeded + self.failed + self.refused;
        write!(f, "{}: {} succeeded", text::count(all, "line"), self.succeeded)?;
        for (number, what) in [(self.failed, "failed"), (self.refused, "could not be run")] {
            if number > 0 {
                write!(f, ", {number} {what}")?;
            }
        }
        Ok(())
    }
}
