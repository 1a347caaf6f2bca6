//! The cost of the guest's computations: the programs in `benches/programs`, each in a fresh
//! sandbox, on metered and on unmetered code, and on the host's Python.
//!
//! `cargo bench --features unmetered --bench compute`, on an otherwise idle machine. Compiles the
//! Python module once without the meter. `BELLJAR_HOST_PYTHON` names the host's Python, with numpy,
//! pandas and matplotlib; `BELLJAR_BENCH_ROUNDS` is the number of rounds (default 7); words after
//! `--` select programs by name.
//!
//! Times are the CPU time of the thread that runs the program, of the fastest round: other load on
//! the machine can only increase it. Times of a sandbox include its creation; the host's Python is
//! warm.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use belljar::{Request, Runtime};

/// Budgets of the geometric means, over unmetered code and over the host's Python.
const BUDGETS: (f64, f64) = (1.12, 2.2);

/// Reads the paths of programs, runs each (twice the first time), and writes its CPU time.
const HOST: &str = "
import contextlib, io, sys, time
warm = set()
for path in map(str.strip, sys.stdin):
    spent = None
    try:
        for _ in range(1 if path in warm else 2):
            with contextlib.redirect_stdout(io.StringIO()):
                before = time.thread_time()
                exec(compile(open(path).read(), path, 'exec'), {'__name__': '__main__'})
                spent = time.thread_time() - before
        warm.add(path)
    except ImportError:
        pass
    print(spent, flush=True)
";

fn main() {
    let rounds = std::env::var("BELLJAR_BENCH_ROUNDS").ok().and_then(|r| r.parse().ok());
    let wanted: Vec<String> = std::env::args().skip(1).filter(|a| !a.starts_with('-')).collect();
    let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("tokio");
    let metered = Runtime::builder().environment().build().expect("a runtime");
    let unmetered =
        Runtime::builder().environment().unmetered().build().expect("a runtime without a meter");
    for runtime in [&metered, &unmetered] {
        runtime.images().prepare("data").expect("an image");
    }
    let mut host = Host::start();
    let mut table = Vec::new();
    for program in programs(&wanted) {
        let code = std::fs::read_to_string(&program).expect("a program");
        let mut row = Row::default();
        for _ in 0..rounds.unwrap_or(7) {
            let (time, fuel, output) = sandbox(&tokio, &metered, &code);
            row.metered.push(time);
            row.fuel = fuel;
            let (time, _, same) = sandbox(&tokio, &unmetered, &code);
            row.unmetered.push(time);
            assert_eq!(output, same, "{}", program.display());
            if let Some(time) = host.as_mut().and_then(|host| host.run(&program)) {
                row.native.push(time);
            }
        }
        row.name = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        row.print();
        table.push(row);
    }
    let mean = |ratio: fn(&Row) -> Option<f64>| {
        let logs: Vec<f64> = table.iter().filter_map(ratio).map(f64::ln).collect();
        (!logs.is_empty()).then(|| (logs.iter().sum::<f64>() / logs.len() as f64).exp())
    };
    verdict("over unmetered code", mean(Row::over_unmetered), BUDGETS.0);
    verdict("over the host's Python", mean(Row::over_native), BUDGETS.1);
}

fn verdict(name: &str, mean: Option<f64>, budget: f64) {
    match mean {
        Some(mean) => {
            let verdict = if mean <= budget { "kept" } else { "MISSED" };
            println!(
                "PROMISE compute {name}, geometric mean: {mean:.3}, budget {budget}: {verdict}"
            );
        }
        None => println!("PROMISE compute {name}: not measured, no program ran there"),
    }
}

#[derive(Default)]
struct Row {
    name: String,
    metered: Vec<f64>,
    unmetered: Vec<f64>,
    native: Vec<f64>,
    fuel: u64,
}

impl Row {
    fn over_unmetered(&self) -> Option<f64> {
        Some(fastest(&self.metered)? / fastest(&self.unmetered)?)
    }

    fn over_native(&self) -> Option<f64> {
        Some(fastest(&self.metered)? / fastest(&self.native)?)
    }

    fn print(&self) {
        let show = |value: Option<f64>| value.map_or_else(|| "-".into(), |v| format!("{v:.2}"));
        let ms = |times: &[f64]| show(fastest(times).map(|seconds| seconds * 1e3));
        println!(
            "{:<20} unmetered {:>8} ms, metered {:>8} ms, native {:>8} ms; ratios {} and {}; \
             {:.1} M fuel",
            self.name,
            ms(&self.unmetered),
            ms(&self.metered),
            ms(&self.native),
            self.over_unmetered().map_or_else(|| "-".into(), |r| format!("{r:.3}")),
            show(self.over_native()),
            self.fuel as f64 / 1e6,
        );
    }
}

fn fastest(times: &[f64]) -> Option<f64> {
    times.iter().copied().min_by(f64::total_cmp)
}

fn programs(wanted: &[String]) -> Vec<PathBuf> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/programs");
    let entries = std::fs::read_dir(dir).expect("the programs");
    let mut all: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    all.sort();
    let named = |path: &PathBuf, word: &String| path.to_string_lossy().contains(word);
    all.retain(|path| wanted.is_empty() || wanted.iter().any(|word| named(path, word)));
    all
}

/// Runs a program in a fresh sandbox. Returns its CPU time in seconds, its fuel, its output.
fn sandbox(tokio: &tokio::runtime::Runtime, runtime: &Runtime, code: &str) -> (f64, u64, String) {
    let request = Request::new(code).image("data").timeout(Duration::from_mins(2));
    let before = thread_time();
    let run = tokio.block_on(runtime.run(request)).expect("a run");
    let time = thread_time() - before;
    assert!(run.outcome.success, "{:?}", run.outcome.error);
    (time, run.outcome.usage.fuel, run.outcome.stdout)
}

fn thread_time() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

/// The host's Python, which runs programs one after the other.
struct Host {
    _process: Child,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Host {
    fn start() -> Option<Self> {
        let python = std::env::var("BELLJAR_HOST_PYTHON").unwrap_or_else(|_| "python3".into());
        let process = Command::new(python)
            .args(["-c", HOST])
            .env("OPENBLAS_NUM_THREADS", "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut process = process.ok()?;
        Some(Self {
            asks: process.stdin.take()?,
            answers: BufReader::new(process.stdout.take()?),
            _process: process,
        })
    }

    /// `None` if the program does not run there.
    fn run(&mut self, program: &Path) -> Option<f64> {
        writeln!(self.asks, "{}", program.display()).ok()?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer).ok()?;
        answer.split_whitespace().next()?.parse().ok()
    }
}
