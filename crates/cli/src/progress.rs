//! Progress on stderr: the current stage, its elapsed time, and its usual time. A bar on a
//! terminal, otherwise a line for each long stage.

use std::fmt::Write;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use belljar::progress::{Progress, Stage};
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};

use super::printer::Printer;
use super::text;

/// Progress bars of all active stages.
#[derive(Debug)]
pub(super) struct Bars {
    printer: Arc<Printer>,
    /// Whether to draw bars. Otherwise lines are printed.
    drawn: bool,
    /// Created on first use: most commands show no progress.
    all: OnceLock<MultiProgress>,
    stages: Mutex<Vec<(Stage, ProgressBar)>>,
}

/// Width of a bar in columns.
const WIDTH: usize = 24;
/// Minimum usual time of a stage for which a line is printed.
const LONG: Duration = Duration::from_secs(5);
/// Interval between redraws of a bar.
const TICK: Duration = Duration::from_millis(100);

impl Bars {
    /// Draws bars if stderr is a terminal.
    pub(super) fn new(printer: &Arc<Printer>) -> Self {
        Self {
            printer: Arc::clone(printer),
            drawn: printer.shows_progress(),
            all: OnceLock::new(),
            stages: Mutex::default(),
        }
    }

    /// Prints lines, because bars would interfere with results on the same terminal.
    pub(super) fn beside_results(printer: &Arc<Printer>) -> Self {
        let mut bars = Self::new(printer);
        bars.drawn &= !printer.out_is_terminal();
        bars
    }

    /// A bar for a batch with an input of `length` bytes, or of unknown length.
    pub(super) fn batch(&self, length: Option<u64>) -> ProgressBar {
        if !self.drawn {
            return ProgressBar::hidden();
        }
        let bar = length.map_or_else(ProgressBar::no_length, ProgressBar::new);
        let template = match length {
            Some(_) => "{bar:24.green/dim} {percent:>3} %  {msg}  {elapsed}",
            None => "{spinner:.green} {msg}  {elapsed}",
        };
        let bar = self.add(bar, ProgressStyle::with_template(template));
        bar.enable_steady_tick(TICK);
        bar
    }

    fn add(
        &self,
        bar: ProgressBar,
        style: Result<ProgressStyle, indicatif::style::TemplateError>,
    ) -> ProgressBar {
        let bar = self.all.get_or_init(MultiProgress::new).add(bar);
        if let Ok(style) = style {
            bar.set_style(style);
        }
        bar
    }
}

impl Progress for Bars {
    fn begin(&self, stage: Stage, subject: &str) {
        let usually = stage.usually_for(subject);
        let space = if subject.is_empty() { "" } else { " " };
        let message = format!(
            "{}{space}{}, usually about {} s",
            stage.describe(),
            text::plain(subject),
            usually.as_secs()
        );
        if !self.drawn {
            if usually >= LONG {
                self.printer.note(&message);
            }
            return;
        }
        let style = ProgressStyle::with_template("{guess} {msg}  {elapsed}").map(|style| {
            style.with_key("guess", move |state: &ProgressState, to: &mut dyn Write| {
                // A bar that cannot be written is not shown.
                let _ = to.write_str(&guess(state.elapsed(), usually));
            })
        });
        let bar = self.add(ProgressBar::no_length(), style);
        bar.set_message(message);
        bar.enable_steady_tick(TICK);
        self.stages.lock().unwrap_or_else(PoisonError::into_inner).push((stage, bar));
    }

    fn end(&self, stage: Stage) {
        let mut stages = self.stages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(last) = stages.iter().rposition(|(under_way, _)| *under_way == stage) {
            stages.remove(last).1.finish_and_clear();
        }
    }
}

/// A bar estimated from time alone. It never looks finished: the last cell stays open.
fn guess(elapsed: Duration, usually: Duration) -> String {
    let part = elapsed.as_secs_f64() / usually.as_secs_f64().max(0.001);
    let full = ((part * WIDTH as f64) as usize).min(WIDTH - 1);
    format!("{}{}", "█".repeat(full), "░".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_is_never_full() {
        let usually = Duration::from_secs(10);
        let full = |seconds| guess(Duration::from_secs(seconds), usually).matches('█').count();
        assert_eq!([full(0), full(5), full(10), full(1000)], [0, 12, 23, 23]);
    }

    #[test]
    fn nothing_is_drawn_when_nobody_watches() {
        let bars = Bars {
            drawn: false,
            ..Bars::new(&Arc::new(Printer::new(true)))
        };
        bars.begin(Stage::Compile, "");
        bars.end(Stage::Compile);
        assert!(bars.all.get().is_none());
    }
}
