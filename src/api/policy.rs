//! Resolves a request into a plan, or rejects it with all reasons.
//!
//! This file contains the defaults and ceilings of a request's settings; `limits.rs` contains fixed
//! limits.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use belljar_value::{Value, wire};
use serde::{Deserialize, Serialize};

use crate::api::refusal::{Field, Reason, ReasonKind, Refusal};
use crate::api::request::{Policy, Request, RequestLimits, Rules};
use crate::api::setters::setters;
use crate::limits::{
    FIGURE_DPI, MAX_CODE, MAX_PATH_BYTES, MAX_PATH_NAMES, MAX_TOOL_ANSWER, MAX_TOOL_ARGUMENTS,
    MAX_TOOL_BYTES, MAX_TOOL_CALLS, MAX_TOOLS, MAX_TYPED_BYTES,
};
use crate::util::host_names::are_host_names;

/// Resolved limits of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct RunLimits {
    /// Limit on wall clock time. As a default, [`Duration::MAX`] is as much as the ceiling allows.
    pub timeout: Duration,
    /// Limit on memory above the image, in bytes.
    pub memory: u64,
    /// Limit on fuel; `None` allows as much as the timeout does.
    pub fuel: Option<u64>,
    /// Bytes to keep of each output stream.
    pub output: u64,
    /// Limit on the size of the workspace, in bytes.
    pub workspace: u64,
    /// Limit on the number of files in the workspace.
    pub files: u64,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(5),
            memory: 256 << 20,
            fuel: None,
            output: 1 << 20,
            workspace: 64 << 20,
            files: 1_000,
        }
    }
}

setters!(RunLimits {
    /// Sets the wall clock time.
    timeout: Duration;
    /// Sets the memory above the image, in bytes.
    memory: u64;
    /// Sets the fuel.
    fuel: u64 => Some;
    /// Sets how many bytes of each output stream are kept.
    output: u64;
    /// Sets the size of the workspace, in bytes.
    workspace: u64;
    /// Sets the number of files in the workspace.
    files: u64;
});

impl RunLimits {
    /// Default ceilings for the limits of a request.
    pub const CEILINGS: Self = Self {
        timeout: Duration::from_hours(1),
        memory: 3 << 30,
        fuel: None,
        output: 256 << 20,
        workspace: 16 << 30,
        files: 100_000,
    };
}

/// A checked request. Code that uses a plan does not check it again.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub request: Request,
    pub bounds: RunLimits,
    /// The same as defaults for more runs: a timeout without a limit of its own is
    /// [`Duration::MAX`], which is the ceiling of the runtime where they run.
    pub defaults: RunLimits,
    /// The timeout as shown in messages: `5`, `0.5`.
    pub timeout_text: String,
    /// Restrictions on the code; `None` allows everything.
    pub rules: Option<Rules>,
    /// The request's variables, encoded for the guest.
    pub variables: Option<Arc<[u8]>>,
}

/// Checks `request` against `ceilings` and applies `defaults`.
pub(crate) fn resolve(
    mut request: Request,
    defaults: &RunLimits,
    ceilings: &RunLimits,
) -> Result<Plan, Refusal> {
    let mut reasons = Vec::new();
    if request.code.len() > MAX_CODE {
        let message = format!(
            "{} bytes, at most {MAX_CODE} are taken; pass data as files",
            request.code.len()
        );
        reasons.push(Reason::new(Field::Code, ReasonKind::TooLong, message));
    }
    let defaults = resolve_limits(&request.limits, defaults, ceilings, &mut reasons);
    let bounds = defaults.timeout(defaults.timeout.min(ceilings.timeout));
    check_files(&request, &mut reasons);
    check_mounts(&request, &mut reasons);
    check_places(&request, &mut reasons);
    check_environment(&request, &mut reasons);
    if let Some(dpi) = request.capture.figure_dpi
        && !FIGURE_DPI.contains(&dpi)
    {
        let message = format!("{dpi}, must be from 1 to 600");
        reasons.push(Reason::new(Field::FigureDpi, ReasonKind::OutOfRange, message));
    }
    check_tools(&request, &mut reasons);
    if request.capture.typed_bytes > MAX_TYPED_BYTES {
        let message = format!("{}, at most {MAX_TYPED_BYTES}", request.capture.typed_bytes);
        reasons.push(Reason::new(Field::TypedBytes, ReasonKind::OutOfRange, message));
    }
    let variables = write_variables(std::mem::take(&mut request.variables), &mut reasons);
    Refusal::unless_empty(reasons)?;
    let mut rules = match &request.policy {
        Policy::Open => None,
        Policy::Strict => Some(Rules::default()),
        Policy::Custom(rules) => Some(rules.clone()),
    };
    if let Some(rules) = rules.as_mut().filter(|_| !request.tools.is_empty()) {
        // A caller that offers tools wants the code to use them.
        rules.imports.push("tools".into());
    }
    Ok(Plan {
        timeout_text: seconds_text(bounds.timeout),
        rules,
        variables,
        bounds,
        defaults,
        request,
    })
}

fn resolve_limits(
    asked: &RequestLimits,
    defaults: &RunLimits,
    ceilings: &RunLimits,
    reasons: &mut Vec<Reason>,
) -> RunLimits {
    let mut number = |field, asked: Option<u64>, default: u64, ceiling: u64, least: u64| {
        let value = asked.unwrap_or(default);
        if value < least || value > ceiling {
            let text: fn(u64) -> String = match field {
                Field::Memory | Field::Workspace => mib_text,
                _ => |number: u64| number.to_string(),
            };
            reasons.push(out_of_range(field, &text(value), &text(least), &text(ceiling)));
        }
        value
    };
    let memory = number(Field::Memory, asked.memory, defaults.memory, ceilings.memory, 1 << 20);
    let output = number(Field::Output, asked.output, defaults.output, ceilings.output, 0);
    let workspace =
        number(Field::Workspace, asked.workspace, defaults.workspace, ceilings.workspace, 0);
    let files = number(Field::MaxFiles, asked.files, defaults.files, ceilings.files, 0);
    let fuel = asked.fuel.or(defaults.fuel);
    if let Some(fuel) = fuel {
        number(Field::Fuel, Some(fuel), fuel, ceilings.fuel.unwrap_or(u64::MAX / 4), 1);
    }
    let timeout = asked.timeout.unwrap_or(defaults.timeout);
    let is_limited = timeout != Duration::MAX;
    if timeout < Duration::from_millis(1) || (is_limited && timeout > ceilings.timeout) {
        let seconds = |time: Duration| format!("{} s", time.as_secs_f64());
        let (value, ceiling) = (seconds(timeout), seconds(ceilings.timeout));
        reasons.push(out_of_range(Field::Timeout, &value, "0.001", &ceiling));
    }
    RunLimits {
        timeout,
        memory,
        fuel,
        output,
        workspace,
        files,
    }
}

fn out_of_range(field: Field, value: &str, least: &str, ceiling: &str) -> Reason {
    let message = format!("{value}, must be from {least} to {ceiling}");
    Reason::new(field, ReasonKind::OutOfRange, message)
}

/// Encodes variables for the guest. Whether the guest can hold them is checked in the guest.
pub(crate) fn write_variables(
    variables: BTreeMap<String, Value>,
    reasons: &mut Vec<Reason>,
) -> Option<Arc<[u8]>> {
    if variables.is_empty() {
        return None;
    }
    let invalid = |name: &str, what: &dyn std::fmt::Display| {
        Reason::new(Field::Variables, ReasonKind::Invalid, format!("{name:?}: {what}"))
    };
    let before = reasons.len();
    for (name, value) in &variables {
        if !is_variable(name) {
            reasons.push(invalid(name, &"not a name that a variable can have"));
        } else if let Err(error) = value.check() {
            reasons.push(invalid(name, &error));
        }
    }
    if reasons.len() > before {
        return None;
    }
    let pairs = variables.into_iter().map(|(name, value)| (Value::Str(name), value));
    match wire::write_dict(pairs.collect()) {
        Ok(bytes) => Some(bytes.into()),
        Err(error) => {
            let message = error.to_string();
            reasons.push(Reason::new(Field::Variables, ReasonKind::TooLong, message));
            None
        }
    }
}

/// Whether `name` can name a variable: an identifier that is not a keyword and not used by Python
/// itself.
pub(crate) fn is_variable(name: &str) -> bool {
    let letter = |c: char| c == '_' || c.is_ascii_alphabetic();
    name.starts_with(letter)
        && name.chars().all(|c| letter(c) || c.is_ascii_digit())
        && !(name.starts_with("__") && name.ends_with("__"))
        && !KEYWORDS.split_ascii_whitespace().any(|keyword| keyword == name)
}

const KEYWORDS: &str = "False None True and as assert async await break class continue def del elif \
    else except finally for from global if import in is lambda nonlocal not or pass raise return try \
    while with yield";

fn check_files(request: &Request, reasons: &mut Vec<Reason>) {
    for file in &request.files {
        if let Err(why) = check_relative(&file.path).and_then(|()| check_depth(&file.path)) {
            let message = format!("{:?} {why}", file.path);
            reasons.push(Reason::new(Field::Files, ReasonKind::Invalid, message));
        }
    }
}

/// Checks that a workspace path is within the limits on paths.
fn check_depth(path: &str) -> Result<(), &'static str> {
    if path.split('/').count() > MAX_PATH_NAMES || path.len() >= MAX_PATH_BYTES {
        return Err("has too many names or bytes");
    }
    Ok(())
}

/// Checks that a workspace path is relative, `/`-separated and stays inside the workspace.
pub(crate) fn check_relative(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("is empty");
    }
    if path.starts_with('/') {
        return Err("is absolute; name it relative to the workspace");
    }
    if path.contains(['\0', '\\']) || !are_host_names(path) {
        return Err("holds a character that no path here may hold");
    }
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("has an empty part, `.` or `..`");
    }
    Ok(())
}

/// Guest directories that mounts may not cover.
const TAKEN: [&str; 5] = ["workspace", "tmp", "usr", "packages", "dev"];

fn check_mounts(request: &Request, reasons: &mut Vec<Reason>) {
    for (index, mount) in request.mounts.iter().enumerate() {
        let inside = mount.guest.strip_prefix('/').unwrap_or("");
        let problem = if check_relative(inside).is_err() {
            Some((ReasonKind::Invalid, "is not an absolute path"))
        } else if TAKEN.contains(&inside.split('/').next().unwrap_or("")) {
            Some((ReasonKind::Taken, "belongs to the sandbox"))
        } else if request.mounts[..index].iter().any(|m| m.guest == mount.guest) {
            Some((ReasonKind::Taken, "is given twice"))
        } else {
            None
        };
        if let Some((kind, why)) = problem {
            let message = format!("{:?} {why}", mount.guest);
            reasons.push(Reason::new(Field::Mounts, kind, message));
        }
        if !mount.host.is_dir() {
            let message = format!("{} is not a directory", mount.host.display());
            reasons.push(Reason::new(Field::Mounts, ReasonKind::NotFound, message));
        }
    }
}

/// Maximum number of workspace aliases.
const MAX_ALIASES: usize = 16;

fn check_places(request: &Request, reasons: &mut Vec<Reason>) {
    for (index, alias) in request.aliases.iter().enumerate() {
        let inside = alias.strip_prefix('/').unwrap_or("");
        let is_same = |other: &str| other.trim_end_matches('/') == alias;
        let problem = if index >= MAX_ALIASES {
            Some((ReasonKind::OutOfRange, "is one more than 16"))
        } else if check_relative(inside).is_err() {
            Some((ReasonKind::Invalid, "is not an absolute path"))
        } else if TAKEN.contains(&inside.split('/').next().unwrap_or("")) {
            Some((ReasonKind::Taken, "belongs to the sandbox"))
        } else if request.aliases[..index].iter().any(|other| is_same(other))
            || request.mounts.iter().any(|mount| is_same(&mount.guest))
        {
            Some((ReasonKind::Taken, "is given twice"))
        } else {
            None
        };
        if let Some((kind, why)) = problem {
            reasons.push(Reason::new(Field::Aliases, kind, format!("{alias:?} {why}")));
        }
    }
    let Some(cwd) = &request.cwd else {
        return;
    };
    let is_in = |root: &str| {
        let rest = cwd.strip_prefix(root);
        rest.is_some_and(|rest| {
            rest.is_empty()
                || rest.strip_prefix('/').is_some_and(|inner| check_relative(inner).is_ok())
        })
    };
    let is_own = is_in("/workspace") || is_in("/tmp");
    if !is_own && !request.aliases.iter().any(|alias| is_in(alias)) {
        let message = format!(
            "{cwd:?} is neither the workspace, by any of its paths, nor /tmp, nor below one"
        );
        reasons.push(Reason::new(Field::Cwd, ReasonKind::Invalid, message));
    }
}

fn check_environment(request: &Request, reasons: &mut Vec<Reason>) {
    for (name, value) in request.env.iter().chain(&request.run_env) {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            let message = format!("{name:?} is not a variable that can be set");
            reasons.push(Reason::new(Field::Env, ReasonKind::Invalid, message));
        }
    }
    if request.args.iter().any(|a| a.contains('\0')) {
        let message = "an argument holds a NUL character";
        reasons.push(Reason::new(Field::Args, ReasonKind::Invalid, message));
    }
}

fn check_tools(request: &Request, reasons: &mut Vec<Reason>) {
    let tools = &request.tools;
    if tools.len() > MAX_TOOLS {
        let message = format!("{} of them, at most {MAX_TOOLS} are taken", tools.len());
        reasons.push(Reason::new(Field::Tools, ReasonKind::TooLong, message));
    }
    for (index, tool) in tools.iter().take(MAX_TOOLS).enumerate() {
        if let Some(problem) = tool.problem() {
            reasons.push(Reason::new(Field::Tools, ReasonKind::Invalid, problem));
        }
        if tools[..index].iter().any(|other| other.name() == tool.name()) {
            let message = format!("{} is given twice", tool.name());
            reasons.push(Reason::new(Field::Tools, ReasonKind::Taken, message));
        }
        let group = tool.name().split_once('.').map(|(group, _)| group);
        if let Some(group) = group.filter(|group| tools.iter().any(|one| one.name() == *group)) {
            let message = format!("{group} is a tool, and {} would be in it", tool.name());
            reasons.push(Reason::new(Field::Tools, ReasonKind::Taken, message));
        }
    }
    let limits = &request.tool_limits;
    let asked = [
        ("calls", u64::from(limits.calls), u64::from(MAX_TOOL_CALLS)),
        ("argument_bytes", u64::from(limits.argument_bytes), u64::from(MAX_TOOL_ARGUMENTS)),
        ("answer_bytes", u64::from(limits.answer_bytes), u64::from(MAX_TOOL_ANSWER)),
        ("total_bytes", limits.total_bytes, MAX_TOOL_BYTES),
    ];
    for (name, asked, ceiling) in asked {
        if asked > ceiling {
            let message = format!("{name} is {asked}, must be from 0 to {ceiling}");
            reasons.push(Reason::new(Field::ToolLimits, ReasonKind::OutOfRange, message));
        }
    }
}

/// Formats bytes as MiB if they are a whole number of MiB.
fn mib_text(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{bytes} bytes")
    }
}

/// Formats seconds with no more digits than needed.
pub(crate) fn seconds_text(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds.fract() == 0.0 {
        format!("{seconds:.0}")
    } else {
        format!("{seconds}")
    }
}

impl Default for Rules {
    /// Returns the rules of the `strict` policy.
    fn default() -> Self {
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect();
        Self {
            imports: words(
                "math datetime json itertools functools collections re random statistics decimal \
                 string typing dataclasses enum fractions time operator copy",
            ),
            forbidden_names: words(
                "exec eval compile open input globals locals vars dir breakpoint __import__ \
                 getattr setattr delattr memoryview help exit quit __builtins__ __loader__ __spec__",
            ),
            forbidden_attributes: words(
                "__builtins__ __globals__ __code__ __closure__ __dict__ __class__ __bases__ __base__ \
                 __mro__ __subclasses__ __import__ __getattribute__ __reduce__ __reduce_ex__ \
                 __loader__ __spec__ __self__ __func__ __wrapped__ gi_frame gi_code cr_frame cr_code \
                 ag_frame f_globals f_locals f_builtins f_back tb_frame",
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(request: Request) -> Vec<String> {
        let refusal = resolve(request, &RunLimits::default(), &RunLimits::CEILINGS).unwrap_err();
        refusal.reasons.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_reason_is_listed() {
        let request = Request::new("")
            .file("../x", "")
            .file("/etc/passwd", "")
            .mount("/nowhere/at/all", "data")
            .env("A=B", "")
            .memory_mib(1 << 20)
            .timeout(Duration::ZERO);
        assert_eq!(refusal(request).len(), 7);
    }

    #[test]
    fn a_run_without_a_timeout_of_its_own_has_the_ceiling() {
        let ceilings = RunLimits::CEILINGS.timeout(Duration::from_secs(30));
        let resolved = |request, defaults| resolve(request, &defaults, &ceilings).unwrap().bounds;
        let unlimited = || Request::new("").timeout(Duration::MAX);
        assert_eq!(resolved(unlimited(), RunLimits::default()).timeout, ceilings.timeout);
        let defaults = RunLimits::default().timeout(Duration::MAX);
        assert_eq!(resolved(Request::new(""), defaults).timeout, ceilings.timeout);
        let limited = Request::new("").timeout(Duration::from_secs(1));
        assert_eq!(resolved(limited, defaults).timeout, Duration::from_secs(1));
        let almost = Request::new("").timeout(Duration::from_secs(u64::MAX));
        assert!(resolve(almost, &defaults, &ceilings).is_err());
    }

    #[test]
    fn a_file_lies_no_deeper_than_a_guest_could_put_it() {
        let path = |names: usize| ["d"; MAX_PATH_NAMES + 1][..names].join("/");
        let request = |path: String| Request::new("").file(path, "");
        let resolved = |path| resolve(request(path), &RunLimits::default(), &RunLimits::CEILINGS);
        assert!(resolved(path(MAX_PATH_NAMES)).is_ok());
        assert_eq!(refusal(request(path(MAX_PATH_NAMES + 1))).len(), 1);
        assert_eq!(refusal(request("n".repeat(MAX_PATH_BYTES))).len(), 1);
    }

    #[test]
    fn memory_is_told_in_the_unit_in_which_it_is_asked_for() {
        assert_eq!(
            refusal(Request::new("").memory_mib(9999)),
            ["limits.memory: 9999 MiB, must be from 1 MiB to 3072 MiB"]
        );
        let limits = RequestLimits {
            memory: Some(1000),
            output: Some(1 << 40),
            ..RequestLimits::default()
        };
        assert_eq!(
            refusal(Request::new("").limits(limits)),
            [
                "limits.memory: 1000 bytes, must be from 1 MiB to 3072 MiB",
                "limits.output: 1099511627776, must be from 0 to 268435456"
            ]
        );
    }

    #[test]
    fn a_mount_cannot_cover_the_sandbox() {
        for guest in ["/workspace", "/usr/local/lib", "/tmp/x", "/"] {
            assert_eq!(refusal(Request::new("").mount("/", guest)).len(), 1, "{guest}");
        }
    }

    #[test]
    fn seconds_are_written_as_the_caller_would() {
        let texts = [5.0, 0.5, 12.25].map(|s| seconds_text(Duration::from_secs_f64(s)));
        assert_eq!(texts, ["5", "0.5", "12.25"]);
    }
}
