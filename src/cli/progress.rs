//! Progress on stderr: what is happening, for how long, and how long it usually takes. Silent
//! when nobody watches.

use std::fmt::Write;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use belljar::progress::{Progress, Stage};
use indicatif::{MultiProgress, ProgressBar, ProgressState, ProgressStyle};

use super::text;

/// The bars of all stages that are under way.
#[derive(Debug)]
pub(super) struct Bars {
    visible: bool,
    /// Made when first needed: most commands have nothing to show.
    all: OnceLock<MultiProgress>,
    stages: Mutex<Vec<(Stage, ProgressBar)>>,
}

/// Columns of a bar.
const WIDTH: usize = 24;
/// How often a bar is drawn anew.
const TICK: Duration = Duration::from_millis(100);

impl Bars {
    pub(super) fn new(visible: bool) -> Self {
        Self {
            visible,
            all: OnceLock::new(),
            stages: Mutex::default(),
        }
    }

    /// A bar over a batch: `length` bytes of input, or unknown.
    pub(super) fn batch(&self, length: Option<u64>) -> ProgressBar {
        if !self.visible {
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
        if !self.visible {
            return;
        }
        let usually = stage.usually();
        let style = ProgressStyle::with_template("{guess} {msg}  {elapsed}").map(|style| {
            style.with_key("guess", move |state: &ProgressState, to: &mut dyn Write| {
                // A bar that cannot be written is a bar that is not seen.
                let _ = to.write_str(&guess(state.elapsed(), usually));
            })
        });
        let bar = self.add(ProgressBar::no_length(), style);
        let space = if subject.is_empty() { "" } else { " " };
        bar.set_message(format!(
            "{}{space}{}, usually about {} s",
            stage.describe(),
            text::plain(subject),
            usually.as_secs()
        ));
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

/// A bar drawn from the time alone. It never looks finished before it is: the last cell stays
/// open however long it takes.
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
        let bars = Bars::new(false);
        bars.begin(Stage::Compile, "");
        bars.end(Stage::Compile);
        assert!(bars.all.get().is_none());
    }
}
