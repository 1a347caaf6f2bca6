//! Shared by the benches of interfaces: many runs through an interface, next to the same runs with
//! the library in the same process at the same time.

use std::fmt;
use std::time::{Duration, Instant};

/// The results of many runs.
#[derive(Default)]
pub struct Side {
    times: Vec<Duration>,
    elapsed: Duration,
    cpu: Duration,
}

impl Side {
    /// Adds the values that `work` measures for each run, and the processor time used meanwhile.
    pub async fn add(&mut self, processes: &[u32], work: impl Future<Output = Vec<Duration>>) {
        let (started, cpu) = (Instant::now(), cpu_time(processes));
        self.times.extend(work.await);
        self.elapsed += started.elapsed();
        self.cpu += cpu_time(processes).saturating_sub(cpu);
        self.times.sort();
    }

    fn at(&self, share: f64) -> Duration {
        let index = (self.times.len() as f64 * share) as usize;
        self.times.get(index.min(self.times.len() - 1)).copied().unwrap_or_default()
    }

    /// The median.
    pub fn median(&self) -> Duration {
        self.at(0.5)
    }

    fn figures(&self) -> [Duration; 4] {
        let count = self.times.len() as u32;
        let mean = self.times.iter().sum::<Duration>() / count;
        [self.median(), mean, self.at(0.99), self.cpu / count]
    }

    /// Runs per second.
    pub fn rate(&self) -> f64 {
        self.times.len() as f64 / self.elapsed.as_secs_f64()
    }
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [median, mean, slow, cpu] = self.figures();
        let rate = self.rate();
        write!(
            f,
            "median {median:.3?}, mean {mean:.3?}, p99 {slow:.2?}, CPU time {cpu:.3?}, {rate:.0} runs/s"
        )
    }
}

/// Prints both, and the second as multiples of the first.
pub fn print(name: &str, library: &Side, other: &Side) {
    println!("{name}\n  library   {library}\n  {:9} {other}", "this");
    let (one, other_figures) = (library.figures(), other.figures());
    let [median, mean, slow, cpu] =
        [0, 1, 2, 3].map(|at| other_figures[at].as_secs_f64() / one[at].as_secs_f64());
    let rate = other.rate() / library.rate();
    println!(
        "  multiples median {median:.2}, mean {mean:.2}, p99 {slow:.2}, CPU time {cpu:.2}, runs/s {rate:.2}"
    );
}

/// Prints a figure next to its budget.
pub fn promise(name: &str, figure: Duration, budget: Duration) {
    let verdict = if figure <= budget { "kept" } else { "MISSED" };
    println!("PROMISE {name}: {figure:.2?}, budget {budget:.2?}: {verdict}");
}

/// Processor time of these processes so far, on all threads.
fn cpu_time(processes: &[u32]) -> Duration {
    let of = |process: &u32| {
        let text = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("Linux");
        // The second field, the name of the program, may contain spaces.
        let (_, fields) = text.rsplit_once(") ").expect("a name in parentheses");
        // User and system time, the fields 14 and 15, in hundredths of a second.
        let ticks = fields.split(' ').skip(11).take(2);
        let ticks: u32 = ticks.map(|ticks| ticks.parse::<u32>().expect("a number")).sum();
        Duration::from_millis(10) * ticks
    };
    processes.iter().map(of).sum()
}
