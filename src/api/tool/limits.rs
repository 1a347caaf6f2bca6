//! How far tools may go.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::setters::setters;

/// How far the tools of one run may go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct ToolLimits {
    /// Calls of all tools together. Default 1,000, at most 100,000.
    pub calls: u32,
    /// Bytes of one call's arguments, as JSON. Default 1 MiB, at most 16 MiB.
    pub argument_bytes: u32,
    /// Bytes of one call's answer, as JSON. Default 4 MiB, at most 64 MiB.
    pub answer_bytes: u32,
    /// Bytes of the arguments and answers of all calls together. Default 64 MiB, at most 4 GiB.
    pub total_bytes: u64,
    /// How long one call may take. The run's own time counts on. Default 30 s.
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
    /// Limits the calls of all tools together.
    calls: u32;
    /// Limits the bytes of one call's arguments.
    argument_bytes: u32;
    /// Limits the bytes of one call's answer.
    answer_bytes: u32;
    /// Limits the bytes of all calls together.
    total_bytes: u64;
    /// Limits the time of one call.
    timeout: Duration;
});
