//! Linux: Landlock, then seccomp, then what else a process can give up.

mod calls;
mod capabilities;
mod files;
mod settings;
mod threads;

use crate::plan::Lockdown;
use crate::status::{Status, Support};

pub(crate) fn support() -> Support {
    Support {
        landlock: files::abi(),
        seccomp: calls::are_filtered(),
        other: None,
    }
}

/// The order matters: Landlock's rules take opening what they allow, and the filter takes what
/// Landlock takes to be set up.
pub(crate) fn apply(plan: &Lockdown) -> Status {
    let mut failures = Vec::new();
    if let Err(error) = settings::give_up() {
        failures.push(error);
    }
    if let Err(error) = capabilities::give_up(plan) {
        failures.push(error);
    }
    let landlock = files::hold(plan, &mut failures);
    let seccomp = match calls::hold(plan) {
        Ok(()) => true,
        Err(error) => {
            failures.push(error);
            false
        }
    };
    Status {
        landlock,
        seccomp,
        other: None,
        failures,
    }
}
