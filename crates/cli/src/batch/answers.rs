//! Writes answers on a thread that may block.

use std::sync::Arc;
use std::time::Duration;

use indicatif::ProgressBar;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;

use super::Tally;
use super::job::Answer;
use super::order::Order;
use crate::printer::Printer;

/// Answers are collected for this long after a write. A single answer is written at once, but
/// thousands per second do not each wake the writer and its reader.
const PAUSE: Duration = Duration::from_millis(1);

/// An answer, the number of its input line, and its permit, held until it is written.
type Sent = (u64, Answer, OwnedSemaphorePermit);

/// Sends answers to the writer. The permits bound how many wait.
#[derive(Clone)]
pub(super) struct Answers(UnboundedSender<Sent>);

impl Answers {
    /// Returns whether the writer still accepts answers.
    pub(super) fn send(&self, sequence: u64, answer: Answer, room: OwnedSemaphorePermit) -> bool {
        self.0.send((sequence, answer, room)).is_ok()
    }
}

/// The writer's output.
pub(super) struct Out {
    pub printer: Arc<Printer>,
    pub order: Order<(Answer, OwnedSemaphorePermit)>,
    pub bar: ProgressBar,
}

impl Out {
    /// Starts the writer. It ends when all senders are dropped.
    pub(super) fn start(self) -> (Answers, JoinHandle<anyhow::Result<Tally>>) {
        let (sender, receiver) = unbounded_channel();
        (Answers(sender), tokio::task::spawn_blocking(move || self.write(receiver)))
    }

    fn write(mut self, mut answers: UnboundedReceiver<Sent>) -> anyhow::Result<Tally> {
        let mut tally = Tally::default();
        let mut next = answers.blocking_recv();
        while let Some((sequence, answer, room)) = next {
            let mut ready = self.order.push(sequence, (answer, room));
            while let Ok((sequence, answer, room)) = answers.try_recv() {
                ready.extend(self.order.push(sequence, (answer, room)));
            }
            if !ready.is_empty() {
                self.put(&ready, &mut tally)?;
                drop(ready);
                std::thread::sleep(PAUSE);
            }
            next = answers.blocking_recv();
        }
        Ok(tally)
    }

    fn put(
        &self,
        ready: &[(Answer, OwnedSemaphorePermit)],
        tally: &mut Tally,
    ) -> anyhow::Result<()> {
        let mut lines = String::new();
        for (answer, _) in ready {
            tally.count(answer.kind);
            self.bar.inc(answer.bytes_read);
            lines.push_str(&answer.line);
        }
        if !self.bar.is_hidden() {
            self.bar.set_message(tally.to_string());
        }
        self.printer.text(&lines)?;
        Ok(())
    }
}
