//! Systems on which nothing is enforced.

use crate::plan::Lockdown;
use crate::status::{LockdownError, Status, Support};

pub(crate) fn support() -> Support {
    Support {
        landlock: None,
        seccomp: false,
    }
}

pub(crate) fn apply(_: &Lockdown) -> Status {
    Status {
        landlock: None,
        seccomp: false,
        failures: vec![LockdownError::System],
    }
}
