//! `belljar batch`: JSON lines in, a line for each out.
//!
//! Memory stays bounded however long the input is: lines are read a few ahead, and in ordered
//! mode no new run starts while too many outcomes wait for an earlier one.

mod job;
mod lines;
mod order;

use std::sync::Arc;
use std::time::Instant;

use anyhow::Context;
use belljar::Runtime;
use indicatif::ProgressBar;
use tokio::sync::mpsc::Receiver;
use tokio::task::JoinSet;

use super::args::{BatchArgs, Global};
use super::exit::Exit;
use super::interrupt::Interrupt;
use super::printer::Printer;
use super::progress::Bars;
use super::{engine, text};
use job::{Answer, Kind};
use lines::Line;
use order::Order;

/// Finished outcomes that may wait for an earlier one, for each run at once.
const WAITING_PER_JOB: usize = 8;

/// Runs every line of the input.
pub(super) fn batch(
    args: &BatchArgs,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    let input = lines::open(&args.file)?;
    let jobs = args.jobs.map_or_else(processors, usize::from);
    let bars = Arc::new(Bars::beside_results(printer));
    let runtime = engine::configure(global, &bars).concurrency(jobs).build()?;
    let reactor = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(jobs.min(processors()))
        .enable_all()
        .build()
        .context("cannot start threads")?;
    let bar = bars.batch(input.length);
    let batch = Batch {
        runtime,
        jobs,
        printer,
        order: Order::new(!args.unordered, jobs * WAITING_PER_JOB),
        tally: Tally::default(),
        bar,
    };
    let interrupt = Interrupt::watch();
    let lines = lines::read_ahead(input, jobs)?;
    let ended = reactor.block_on(batch.drive(lines, &interrupt));
    // An image that is being baked on another thread is not waited for.
    reactor.shutdown_background();
    ended
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A batch that is under way.
struct Batch<'a> {
    runtime: Runtime,
    jobs: usize,
    printer: &'a Printer,
    order: Order<Answer>,
    tally: Tally,
    bar: ProgressBar,
}

impl Batch<'_> {
    async fn drive(
        mut self,
        mut lines: Receiver<Line>,
        interrupt: &Interrupt,
    ) -> anyhow::Result<Exit> {
        let start = Instant::now();
        let mut running = JoinSet::new();
        let ended = tokio::select! {
            biased;
            exit = interrupt.arrived() => Ok(Some(exit)),
            done = self.answer_all(&mut lines, &mut running) => done.map(|()| None),
        };
        // Waits until the workspaces of runs that nobody wants any more are removed.
        running.shutdown().await;
        self.bar.finish_and_clear();
        if let Some(exit) = ended? {
            return Ok(exit);
        }
        self.printer.note(&self.tally.describe(start));
        Ok(if self.tally.refused == 0 {
            Exit::Success
        } else {
            Exit::Found
        })
    }

    async fn answer_all(
        &mut self,
        lines: &mut Receiver<Line>,
        running: &mut JoinSet<(u64, Answer)>,
    ) -> anyhow::Result<()> {
        let mut more = true;
        let mut sequence = 0;
        while more || !running.is_empty() {
            let room = running.len() < self.jobs && self.order.has_room();
            tokio::select! {
                Some(done) = running.join_next() => {
                    let (sequence, answer) = done.context("a run was lost")?;
                    self.finish(sequence, answer)?;
                }
                line = lines.recv(), if more && room => match line {
                    None => more = false,
                    Some(line) => {
                        let runtime = self.runtime.clone();
                        running.spawn(async move { (sequence, job::answer(&runtime, line).await) });
                        sequence += 1;
                    }
                },
            }
        }
        Ok(())
    }

    /// Writes every answer whose turn it is.
    fn finish(&mut self, sequence: u64, answer: Answer) -> anyhow::Result<()> {
        for answer in self.order.push(sequence, answer) {
            self.tally.count(answer.kind);
            self.bar.inc(answer.bytes_read);
            self.bar.set_message(self.tally.to_string());
            self.printer.text(&answer.line)?;
        }
        Ok(())
    }
}

/// How many lines ended how.
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
