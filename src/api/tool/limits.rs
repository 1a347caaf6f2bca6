//! Limits on tools.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::setters::setters;

/// Limits on the tools of one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ToolLimits {
    /// Number of calls of all tools together. Default 1,000, at most 100,000.
    pub calls: u32,
    /// Size of one call's arguments as JSON, in bytes. Default 1 MiB, at most 16 MiB.
    pub argument_bytes: u32,
    /// Size of one call's answer as JSON, in bytes. Default 4 MiB, at most 64 MiB.
    pub answer_bytes: u32,
    /// Size of the arguments and answers of all calls together, in bytes. Default 64 MiB, at most 4
    /// GiB.
    pub total_bytes: u64,
    /// Time of one call. It also counts towards the run's time limit. Default 30 s.
    pub timeout: Duration,
}

impl Default for ToolLimits {
    fn default() -> Self {
        Self {
            calls: 1_000,
            argument_bytes: 1 << 20,
            answer_bytes: 4 << 20,
            total_bytes: 64 << 20,
            timeout: Duration::from_secs(30),
        }
    }
}

setters!(ToolLimits {
    /// Limits the number of calls of all tools together.
    calls: u32;
    /// Limits the size of one call's arguments, in bytes.
    argument_bytes: u32;
    /// Limits the size of one call's answer, in bytes.
    answer_bytes: u32;
    /// Limits the size of all calls together, in bytes.
    total_bytes: u64;
    /// Limits the time of one call.
    timeout: Duration;
});
