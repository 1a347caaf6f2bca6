//! Answers on their way out, written on a thread that may block.

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

/// How long answers are gathered after some were written: an answer that comes alone is written at
/// once, and thousands a second do not wake a thread, and their reader, each.
const PAUSE: Duration = Duration::from_millis(1);

/// An answer, which line of the input it answers, and the room that it takes until it is written.
type Sent = (u64, Answer, OwnedSemaphorePermit);

/// Where jobs put their answers. As many wait as there is room for.
#[derive(Clone)]
pub(super) struct Answers(UnboundedSender<Sent>);

impl Answers {
    /// Returns whether somebody will write it.
    pub(super) fn send(&self, sequence: u64, answer: Answer, room: OwnedSemaphorePermit) -> bool {
        self.0.send((sequence, answer, room)).is_ok()
    }
}

/// Where answers are written to.
pub(super) struct Out {
    pub printer: Arc<Printer>,
    pub order: Order<(Answer, OwnedSemaphorePermit)>,
    pub bar: ProgressBar,
}

impl Out {
    /// Starts to write. It ends when there is nobody left who may send an answer.
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
