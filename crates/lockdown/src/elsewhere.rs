//! Systems on which nothing is enforced.

use crate::plan::Lockdown;
use crate::status::{Status, Support};

pub(crate) fn support() -> Support {
    Support {
        landlock: None,
        seccomp: false,
        other: None,
    }
}

pub(crate) fn apply(plan: &Lockdown) -> Status {
    plan.apply_by_default()
}
