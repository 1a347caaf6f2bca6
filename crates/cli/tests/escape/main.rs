//! Guests that have broken out of WebAssembly, in the real command and server: each attack
//! succeeds with `--no-lockdown`, which is its control, and fails with the lock-down. What
//! `docs/reference/lockdown.md` says stays succeeds with both.
//!
//! The attacks are Python functions in `attacks`. The feature `escape` gives the code in a sandbox
//! every system call, and all memory of its process.

mod world;

use std::collections::BTreeSet;
use std::process::ExitCode;

use belljar::lockdown::Support;
use libtest_mimic::{Arguments, Failed, Trial};

use world::World;

/// The files of attacks, and the command that is attacked.
const FILES: [(&str, Target, &str); 6] = [
    ("files", Target::Run, include_str!("attacks/files.py")),
    ("kernel", Target::Run, include_str!("attacks/kernel.py")),
    ("network", Target::Run, include_str!("attacks/network.py")),
    ("processes", Target::Run, include_str!("attacks/processes.py")),
    ("server", Target::Serve, include_str!("attacks/server.py")),
    ("workers", Target::Worker, include_str!("attacks/workers.py")),
];
const LEAST: usize = 60;

#[derive(Clone, Copy)]
enum Target {
    Run,
    /// One process for all accounts.
    Serve,
    /// A process for each account.
    Worker,
}

/// An attack.
#[derive(Clone, Copy)]
struct Case {
    name: &'static str,
    kind: Kind,
    target: Target,
    /// The file with its function.
    source: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Attack,
    /// Its control works for root only.
    AsRoot,
    /// Documented as possible.
    Stays,
}

fn main() -> ExitCode {
    if let Some(code) = world::as_victim() {
        return code;
    }
    let mut arguments = Arguments::from_args();
    // Each is a process with a memory image, beside a victim.
    arguments.test_threads.get_or_insert(2);
    let support = Support::probe();
    let lacks = !support.seccomp || support.landlock.is_none();
    let mut trials = vec![
        Trial::test("this_build_has_the_hook", hook),
        Trial::test("there_are_enough_attacks", count),
    ];
    for (file, target, source) in FILES {
        trials.extend(cases(target, source).into_iter().map(|case| {
            let is_out_of_reach = case.kind == Kind::AsRoot && !world::is_root();
            Trial::test(format!("{file}::{}", case.name), move || judge(case))
                .with_ignored_flag(is_out_of_reach || lacks && !world::must_run())
        }));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The functions with decorators.
fn cases(target: Target, source: &'static str) -> Vec<Case> {
    let mut kind = None;
    let mut cases = Vec::new();
    for line in source.lines() {
        match line {
            "@attack" => kind = Some(Kind::Attack),
            "@attack_as_root" => kind = Some(Kind::AsRoot),
            "@stays" => kind = Some(Kind::Stays),
            _ => {
                let Some(kind) = kind.take() else {
                    continue;
                };
                let name = line.strip_prefix("def ").and_then(|line| line.strip_suffix("():"));
                let name = name.expect("a function follows a decorator");
                cases.push(Case {
                    name,
                    kind,
                    target,
                    source,
                });
            }
        }
    }
    cases
}

fn judge(case: Case) -> Result<(), Failed> {
    match attack(case, false)? {
        Ended::Succeeded => {}
        Ended::Absent(why) => {
            eprintln!("{}: left out, because this kernel lacks what it calls: {why}", case.name);
            return Ok(());
        }
        Ended::Failed(why) => return Err(format!("without lock-down it fails: {why}").into()),
    }
    match (attack(case, true)?, case.kind) {
        (Ended::Succeeded, Kind::Attack | Kind::AsRoot) => Err("locked down it succeeds".into()),
        (Ended::Failed(why) | Ended::Absent(why), Kind::Stays) => {
            Err(format!("this is documented as possible: {why}").into())
        }
        _ => Ok(()),
    }
}

/// How an attack ended.
enum Ended {
    Succeeded,
    Failed(String),
    /// It failed as on a kernel that was built without what it calls.
    Absent(String),
}

/// Runs an attack in a world of its own.
fn attack(case: Case, is_locked: bool) -> Result<Ended, Failed> {
    let world = World::new()?;
    let before = world.state()?;
    let output = match case.target {
        Target::Run => world.run(case.name, case.source, is_locked)?,
        Target::Serve => world.serve(case.name, case.source, is_locked, false)?,
        Target::Worker => world.serve(case.name, case.source, is_locked, true)?,
    };
    let said = |what: &str| output.lines().find_map(|line| Some(line.strip_prefix(what)?.trim()));
    let ended = match (said("SUCCEEDED"), said("FAILED"), said("ABSENT")) {
        (Some(_), None, None) => Ended::Succeeded,
        (None, Some(why), None) => Ended::Failed(why.to_owned()),
        (None, None, Some(why)) => Ended::Absent(why.to_owned()),
        _ => return Err(format!("the attack ended in another way:\n{output}").into()),
    };
    // What the guest says is one thing. Here is what it did to files and processes.
    if is_locked && case.kind != Kind::Stays {
        let after = world.state()?;
        if before != after {
            return Err(format!("locked down it changed {before:#?} to {after:#?}").into());
        }
    }
    Ok(ended)
}

/// Otherwise the controls would be Python that knows no system calls, and all tests would fail;
/// and the test that looks for the hook in other builds could not.
fn hook() -> Result<(), Failed> {
    let program = std::fs::read(env!("CARGO_BIN_EXE_belljar"))?;
    let hook = world::HOOK.as_bytes();
    if program.windows(hook.len()).any(|bytes| bytes == hook) {
        Ok(())
    } else {
        Err("the hook is not found".into())
    }
}

fn count() -> Result<(), Failed> {
    let mut attacks = 0;
    for (file, target, source) in FILES {
        let cases = cases(target, source);
        attacks += cases.iter().filter(|case| case.kind != Kind::Stays).count();
        // A second function of the same name would take the place of the first.
        let names: BTreeSet<&str> = cases.iter().map(|case| case.name).collect();
        if names.len() < cases.len() {
            return Err(format!("two attacks in {file} have the same name").into());
        }
    }
    if attacks < LEAST {
        return Err(format!("only {attacks} attacks").into());
    }
    Ok(())
}
