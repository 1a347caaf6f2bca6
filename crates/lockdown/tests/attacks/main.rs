//! What a guest that has broken out could try, from inside a process of its own: each attack
//! succeeds in an unrestricted process, which is its control, and fails after the lock-down.
//!
//! This program starts itself: as the attacker, and as a victim for it to attack.
#![expect(unsafe_code, reason = "attacks are system calls with any arguments")]

mod files;
mod kept;
mod kernel;
mod network;
mod processes;
mod threads;
mod world;

use std::process::ExitCode;

use belljar_lockdown::{Lockdown, Support};
use libtest_mimic::{Arguments, Failed, Trial};

use world::{Ended, World};

/// An attack: it calls the second argument when it wants to be locked down, and says why it failed.
type Attack = fn(&World, &dyn Fn()) -> Result<(), String>;

fn main() -> ExitCode {
    if let Some(code) = world::as_victim() {
        return code;
    }
    if let Some(code) = world::as_attacker(&attacks()) {
        return code;
    }
    let arguments = Arguments::from_args();
    let support = Support::probe();
    let mut trials: Vec<Trial> = attacks()
        .into_iter()
        .map(|(name, _)| {
            let lacks = !support.seccomp || support.landlock.is_none();
            Trial::test(format!("attack::{name}"), move || attack(name))
                .with_ignored_flag(lacks && !world::must_run())
        })
        .collect();
    trials.push(Trial::test("every_attack_has_a_name_of_its_own", names));
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn attacks() -> Vec<(&'static str, Attack)> {
    [files::ATTACKS, processes::ATTACKS, network::ATTACKS, kernel::ATTACKS, threads::ATTACKS]
        .concat()
        .into_iter()
        .chain(kept::CHECKS.iter().copied())
        .collect()
}

fn attack(name: &str) -> Result<(), Failed> {
    let control = world::attack(name, false)?;
    let is_kept = kept::CHECKS.iter().any(|(kept, _)| *kept == name);
    if !matches!(control, Ended::Succeeded) {
        if world::must_run() && !control.is_absent() {
            return Err(format!("the control fails: {control:?}").into());
        }
        eprintln!("{name}: left out, since the control fails here: {control:?}");
        return Ok(());
    }
    match (world::attack(name, true)?, is_kept) {
        (Ended::Failed(_) | Ended::Killed, false) | (Ended::Succeeded, true) => Ok(()),
        (ended, _) => Err(format!("locked down it ended as {ended:?}").into()),
    }
}

fn names() -> Result<(), Failed> {
    let mut names: Vec<&str> = attacks().into_iter().map(|(name, _)| name).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    if names.len() == count {
        Ok(())
    } else {
        Err("two have the same name".into())
    }
}

/// What the attacker keeps: a directory to read, one to write, and a port to connect to.
fn lock(world: &World) {
    let plan = Lockdown::new().read(world.path("readable")).write(world.path("writable"));
    let plan = if world.keeps_port() {
        plan.connect(world.allowed_port)
    } else {
        plan
    };
    let status = plan.apply();
    assert!(status.is_whole(), "{status}: {:?}", status.failures());
}
