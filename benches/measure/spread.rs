//! Shared by the benches of thousands of runs: the duration of each, and the total cost.

use std::fmt;
use std::time::Duration;

/// Budget for runs per second on two processors.
const MIN_RATE: f64 = 3_000.0;
const MAX_CPU_TIME: Duration = Duration::from_micros(600);

/// The duration of each of many runs.
pub struct Spread(Vec<Duration>);

impl Spread {
    pub fn new(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    fn at(&self, share: f64) -> Duration {
        let index = (self.0.len() as f64 * share) as usize;
        self.0.get(index.min(self.0.len() - 1)).copied().unwrap_or_default()
    }

    /// Prints the results of runs that took `elapsed` together, and `cpu` on all threads, next to
    /// the budgets for two processors.
    #[allow(dead_code, reason = "not every bench has these budgets")]
    pub fn report(&self, name: &str, jobs: usize, elapsed: Duration, cpu: Duration) {
        let count = self.0.len();
        let rate = count as f64 / elapsed.as_secs_f64();
        let (median, slow) = (self.at(0.5), self.at(0.99));
        let each = cpu / count as u32;
        let kept = (jobs == 1 || rate >= MIN_RATE) && slow <= 2 * median && each <= MAX_CPU_TIME;
        println!(
            "PROMISE {name}: {rate:.0} runs/s, {self}, \
             CPU time {each:.0?} of {count} runs, budget {MIN_RATE} runs/s with 2 \
             jobs and more, p99 of 2 medians, CPU time {MAX_CPU_TIME:.0?}: {}",
            if kept { "kept" } else { "MISSED" }
        );
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mean = self.0.iter().sum::<Duration>() / self.0.len().max(1) as u32;
        let (median, slow) = (self.at(0.5), self.at(0.99));
        write!(f, "median {median:.2?}, mean {mean:.2?}, p99 {slow:.2?}")
    }
}

/// Which processor time to read, by the number of a field of `/proc/self/stat`.
#[derive(Clone, Copy)]
#[allow(dead_code, reason = "each bench looks at one of them")]
pub enum Whose {
    /// The processor time of this process.
    Own = 14,
    /// The processor time of its finished children.
    Children = 16,
}

/// Processor time so far, on all threads.
pub fn cpu_time(whose: Whose) -> Duration {
    let text = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    // The second field, the name of the program, may contain spaces.
    let (_, fields) = text.rsplit_once(") ").expect("a name in parentheses");
    let times = fields.split(' ').skip(whose as usize - 3).take(2);
    // User and system time, in hundredths of a second.
    times.map(|ticks| Duration::from_millis(10) * ticks.parse::<u32>().expect("a number")).sum()
}
