//! The cost of files: input files, sqlite, a large CSV file, archives, and sessions with many
//! files.
//!
//! `cargo bench --bench files`, on an otherwise idle machine; arguments select cases by name. To
//! compare two commits, alternate between their benches.

#[path = "measure/memory.rs"]
mod memory;
#[path = "measure/spread.rs"]
mod spread;

use std::time::{Duration, Instant};

use belljar::session::RegistryLimits;
use belljar::{Request, RequestLimits, Runtime, Session, SessionOptions};
use tokio::runtime::Runtime as Tokio;

use memory::resident_kib;
use spread::{Spread, Whose, cpu_time};

/// Number of forks of a session.
const FORKS: usize = 1_000;

const TEN_FILES: &str = "
for n in range(10):
    data = open(f'in{n}', 'rb').read()
    with open(f'out{n}', 'wb') as file:
        file.write(data[::-1])
    assert open(f'out{n}', 'rb').read() == data[::-1]
";

const SQLITE: &str = "
import sqlite3
db = sqlite3.connect('rows.db')
db.execute('create table rows (id integer primary key, name text, value real)')
for n in range(100):
    with db:
        for m in range(100):
            db.execute('insert into rows (name, value) values (?, ?)', (f'row {n} {m}', n * m / 7))
assert db.execute('select count(*) from rows').fetchone() == (10_000,)
db.close()
";

const CSV: &str = "
import numpy as np, pandas as pd
numbers = np.random.default_rng(0).integers(10**18, 9 * 10**18, size=(2_600_000, 4))
pd.DataFrame(numbers, columns=list('abcd')).to_csv('numbers.csv', index=False)
import os
assert os.path.getsize('numbers.csv') > 190 * 2**20
assert len(pd.read_csv('numbers.csv')) == 2_600_000
";

const ZIP: &str = "
import zipfile
with zipfile.ZipFile('all.zip', 'w') as archive:
    for n in range(1_000):
        archive.writestr(f'member/{n}.txt', b'tea and biscuits ' * 64)
with zipfile.ZipFile('all.zip') as archive:
    archive.extractall('out')
    assert sum(len(archive.read(name)) for name in archive.namelist()) == 1_000 * 17 * 64
";

type Case = fn(&Bench);

fn main() {
    let cases: [(&str, Case); 6] = [
        ("ten", ten_files),
        ("sqlite", |bench| bench.code("sqlite: 10,000 inserts in 100 transactions", SQLITE, 15)),
        ("csv", |bench| bench.code("pandas: 200 MB of CSV written and read", CSV, 2)),
        ("zip", |bench| bench.code("zipfile: 1,000 members written and extracted", ZIP, 15)),
        ("sessions", sessions),
        ("forks", forks),
    ];
    let asked: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let bounds = RegistryLimits::default().max_awake(FORKS + 1);
    let runtime = Runtime::builder().environment().sessions(bounds).build().expect("a runtime");
    runtime.images().prepare("data").expect("an image");
    let bench = Bench {
        runtime,
        tokio: Tokio::new().expect("threads"),
    };
    for (name, case) in cases {
        if asked.is_empty() || asked.iter().any(|asked| asked == name) {
            case(&bench);
        }
    }
}

struct Bench {
    runtime: Runtime,
    tokio: Tokio,
}

impl Bench {
    /// Measures `once` `count` times, after a first time that does not count.
    fn measure(&self, name: &str, count: u32, mut once: impl FnMut() -> Duration) {
        once();
        let cpu = cpu_time(Whose::Own);
        let times = Spread::new((0..count).map(|_| once()).collect());
        let cpu = cpu_time(Whose::Own).saturating_sub(cpu) / count;
        println!("{name}: {times}, CPU time {cpu:.0?}, of {count}");
    }

    fn code(&self, name: &str, code: &str, count: u32) {
        self.measure(name, count, || {
            let limits = RequestLimits::default()
                .timeout(Duration::from_mins(4))
                .memory(2 << 30)
                .workspace(1 << 30)
                .files(2_000);
            self.fresh(Request::new(code).image("data").limits(limits))
        });
    }

    fn fresh(&self, request: Request) -> Duration {
        let start = Instant::now();
        let run = self.tokio.block_on(self.runtime.run(request)).expect("a run");
        let time = start.elapsed();
        assert!(run.outcome.success, "{:?}", run.outcome.error);
        time
    }

    fn session(&self, init: &str) -> Session {
        let options = SessionOptions::new().image("data").init_code(init);
        self.tokio.block_on(self.runtime.session(options)).expect("a session")
    }

    /// Runs code in a session, and waits for its recovery point.
    fn turn(&self, session: &Session, code: &str) {
        let run = self.tokio.block_on(session.run(Request::new(code))).expect("a run");
        assert!(run.success, "{:?}", run.error);
        self.tokio.block_on(session.history()).expect("a history");
    }
}

fn ten_files(bench: &Bench) {
    let content: Vec<u8> = (0..10_000_u32).map(|n| (n % 251) as u8).collect();
    bench.measure("10 files of 10 KB in, 10 written and read back", 400, || {
        let request = Request::new(TEN_FILES).image("data");
        bench.fresh(
            (0..10).fold(request, |request, n| request.file(format!("in{n}"), content.clone())),
        )
    });
}

fn sessions(bench: &Bench) {
    for files in [0, 1_000] {
        // The same code with both, so that only the files differ.
        let init = format!(
            "for n in range({files}):\n    with open(f'file{{n}}', 'w') as file:\n        file.write('tea' * 100)"
        );
        let session = bench.session(&init);
        bench.measure(&format!("{files} files: x = 1 with its recovery point"), 400, || {
            let start = Instant::now();
            bench.turn(&session, "x = 1");
            start.elapsed()
        });
        bench.measure(&format!("{files} files: fork to the first result"), 100, || {
            let start = Instant::now();
            let fork = bench.tokio.block_on(session.fork()).expect("a fork");
            bench.turn(&fork, "x = 2");
            let time = start.elapsed();
            fork.close();
            time
        });
        bench.measure(&format!("{files} files: rewind to the first result"), 100, || {
            let execution = bench.tokio.block_on(session.execution());
            bench.turn(&session, "x = 3");
            let start = Instant::now();
            bench.tokio.block_on(session.rewind(execution)).expect("a state");
            bench.turn(&session, "x = 4");
            start.elapsed()
        });
        session.close();
    }
}

fn forks(bench: &Bench) {
    for mib in [0, 50] {
        let init = format!(
            "import os\nfor n in range({mib}):\n    with open(f'file{{n}}', 'wb') as file:\n        file.write(os.urandom(2**20))"
        );
        let session = bench.session(&init);
        bench.turn(&session, "x = 1");
        let before = resident_kib();
        let forks: Vec<Session> =
            (0..FORKS).map(|_| bench.tokio.block_on(session.fork()).expect("a fork")).collect();
        for fork in &forks {
            bench.turn(fork, "open('own', 'w').write('x')");
        }
        let each = (resident_kib() - before) / i64::try_from(FORKS).unwrap();
        println!("{FORKS} forks of a session with {mib} MiB of files: {each} KiB each");
        forks.iter().for_each(Session::close);
        session.close();
    }
}
