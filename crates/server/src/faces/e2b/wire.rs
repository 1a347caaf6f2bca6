//! JSON requests and responses of the control plane.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A request to create a sandbox. Fields without meaning here, such as the network, are ignored.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct NewSandbox {
    #[serde(rename = "templateID")]
    pub template: String,
    pub timeout: Option<u64>,
    #[serde(default)]
    pub auto_pause: Option<bool>,
    #[serde(default)]
    pub auto_pause_memory: Option<bool>,
    #[serde(default)]
    pub metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    pub env_vars: Option<BTreeMap<String, String>>,
}

/// A sandbox, as returned to the client that created or found it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Created {
    #[serde(rename = "templateID")]
    pub template: String,
    #[serde(rename = "sandboxID")]
    pub sandbox: String,
    #[serde(rename = "clientID")]
    pub client: &'static str,
    pub envd_version: &'static str,
    pub envd_access_token: String,
    pub domain: Option<String>,
    pub traffic_access_token: String,
    pub alias: String,
}

/// Details of a sandbox.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Detail {
    #[serde(rename = "templateID")]
    pub template: String,
    pub alias: String,
    #[serde(rename = "sandboxID")]
    pub sandbox: String,
    #[serde(rename = "clientID")]
    pub client: &'static str,
    pub started_at: String,
    pub end_at: String,
    pub envd_version: &'static str,
    #[serde(rename = "cpuCount")]
    pub cpus: u32,
    #[serde(rename = "memoryMB")]
    pub memory_mib: u64,
    #[serde(rename = "diskSizeMB")]
    pub disk_mib: u64,
    pub state: State,
    pub metadata: BTreeMap<String, String>,
    pub domain: Option<String>,
    /// Missing in listings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub envd_access_token: Option<String>,
    pub allow_internet_access: bool,
    pub lifecycle: Lifecycle,
}

/// Whether the sandbox is running or paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Running,
    Paused,
}

/// What happens to an expired sandbox.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Lifecycle {
    pub auto_resume: bool,
    pub on_timeout: &'static str,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Connect {
    #[serde(default)]
    pub timeout: Option<u64>,
    /// Whether variables are restored, too; files always are.
    #[serde(default)]
    pub memory: Option<bool>,
}

#[derive(Debug, Deserialize)]
pub(super) struct Timeout {
    pub timeout: u64,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Refresh {
    #[serde(default)]
    pub duration: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Pause {
    #[serde(default)]
    pub memory: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct Fork {
    #[serde(default)]
    pub count: Option<u32>,
    #[serde(default)]
    pub timeout: Option<u64>,
}

/// The result of one fork.
#[derive(Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Forked {
    Sandbox(Created),
    Error { code: u16, message: String },
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct NewSnapshot {
    #[serde(default)]
    pub name: Option<String>,
    #[serde(default)]
    pub memory: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct SnapshotInfo {
    #[serde(rename = "snapshotID")]
    pub id: String,
    pub names: Vec<String>,
}

/// Filters of a listing of sandboxes or snapshots.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Listing {
    pub metadata: Option<String>,
    pub state: Option<String>,
    pub order: Option<String>,
    pub started_after: Option<String>,
    pub template: Option<String>,
    #[serde(rename = "sandboxID")]
    pub sandbox: Option<String>,
    pub name: Option<String>,
    pub limit: Option<usize>,
    pub next_token: Option<String>,
}

/// Code to execute.
#[derive(Debug, Deserialize)]
pub(super) struct Execute {
    pub code: String,
    #[serde(default)]
    pub context_id: Option<String>,
    #[serde(default)]
    pub language: Option<String>,
    #[serde(default)]
    pub env_vars: Option<BTreeMap<String, String>>,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct NewContext {
    #[serde(default)]
    pub cwd: Option<String>,
    #[serde(default)]
    pub language: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct ContextInfo {
    pub id: String,
    pub language: &'static str,
    pub cwd: String,
}

/// A file that was written.
#[derive(Debug, Serialize)]
pub(super) struct Written {
    pub name: String,
    #[serde(rename = "type")]
    pub kind: &'static str,
    pub path: String,
}

/// A change of network access.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Network {
    #[serde(default, alias = "allow_internet_access")]
    pub allow_internet_access: Option<bool>,
    #[serde(default)]
    pub allow_out: Option<Vec<Value>>,
}
