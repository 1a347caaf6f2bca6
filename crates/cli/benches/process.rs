//! The promises of `docs/budgets.md` about whole processes.
//!
//! `cargo bench --bench process`, on a machine that does nothing else.

#[path = "../../../benches/measure/mod.rs"]
mod measure;

use std::process::Command;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};

use measure::{ms, promise, timed};

/// Whole processes, as a shell starts them.
fn processes(c: &mut Criterion) {
    let belljar = env!("CARGO_BIN_EXE_belljar");
    let run = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args);
        timed(|| command.output().expect("a program"))
    };
    let ours = ["run", "-c", "import pandas"];
    promise(c, "process: belljar run -c 'import pandas'", ms(60.0), || run(belljar, &ours));
    if run("python3", &["-c", "import pandas"]) > Duration::ZERO && has_pandas() {
        let theirs = ["-c", "import pandas"];
        promise(c, "reference: python3 -c 'import pandas'", ms(1_000.0), || {
            run("python3", &theirs)
        });
    }
}

fn has_pandas() -> bool {
    let found = Command::new("python3").args(["-c", "import pandas"]).status();
    found.is_ok_and(|status| status.success())
}

criterion_group! {
    name = process;
    config = Criterion::default().sample_size(50).without_plots();
    targets = processes
}
criterion_main!(process);
