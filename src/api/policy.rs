//! Resolves a request into a plan, or refuses it with every reason.
//!
//! Defaults and ceilings live here and nowhere else.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::request::{Limits, Policy, Request, Rules};

/// Why a request cannot be run; every reason, not the first.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the request is refused: {}", .reasons.join("; "))]
pub struct Refusal {
    /// The reasons, each naming the field it is about.
    pub reasons: Vec<String>,
}

/// Limits with every number decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bounds {
    /// Wall clock time.
    pub timeout: Duration,
    /// Bytes of memory above the image.
    pub memory: u64,
    /// Fuel; `None` for as much as the time allows.
    pub fuel: Option<u64>,
    /// Bytes kept of each output stream.
    pub output: u64,
    /// Bytes in the workspace.
    pub workspace: u64,
    /// Files in the workspace.
    pub files: u64,
}

impl Default for Bounds {
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

impl Bounds {
    /// The most that a request may ask for unless the runtime was built with other ceilings.
    pub const CEILINGS: Self = Self {
        timeout: Duration::from_hours(1),
        memory: 3 << 30,
        fuel: None,
        output: 256 << 20,
        workspace: 16 << 30,
        files: 100_000,
    };
}

/// A checked request: nothing after this point checks it again.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub request: Request,
    pub bounds: Bounds,
    /// The timeout as people write it: `5`, `0.5`.
    pub timeout_text: String,
    /// What the code may contain; `None` for everything.
    pub rules: Option<Rules>,
}

/// The longest code that a run takes, in bytes.
const MAX_CODE: usize = 10 << 20;

/// Checks `request` against `ceilings`, filling in `defaults`.
pub(crate) fn resolve(
    request: Request,
    defaults: &Bounds,
    ceilings: &Bounds,
) -> Result<Plan, Refusal> {
    let mut reasons = Vec::new();
    if request.code.len() > MAX_CODE {
        reasons.push(format!(
            "code: {} bytes, at most {MAX_CODE} are taken; pass data as files",
            request.code.len()
        ));
    }
    let bounds = resolve_limits(&request.limits, defaults, ceilings, &mut reasons);
    check_files(&request, &mut reasons);
    check_mounts(&request, &mut reasons);
    check_environment(&request, &mut reasons);
    if let Some(dpi) = request.capture.figure_dpi
        && !(1..=600).contains(&dpi)
    {
        reasons.push(format!("capture.figure_dpi: {dpi}, must be from 1 to 600"));
    }
    if !reasons.is_empty() {
        return Err(Refusal { reasons });
    }
    let rules = match &request.policy {
        Policy::Open => None,
        Policy::Strict => Some(Rules::default()),
        Policy::Custom(rules) => Some(rules.clone()),
    };
    Ok(Plan {
        timeout_text: seconds_text(bounds.timeout),
        rules,
        bounds,
        request,
    })
}

fn resolve_limits(
    asked: &Limits,
    defaults: &Bounds,
    ceilings: &Bounds,
    reasons: &mut Vec<String>,
) -> Bounds {
    let mut number = |name: &str, asked: Option<u64>, default: u64, ceiling: u64, least: u64| {
        let value = asked.unwrap_or(default);
        if value < least || value > ceiling {
            let text: fn(u64) -> String = match name {
                "memory" | "workspace" => mib_text,
                _ => |number: u64| number.to_string(),
            };
            reasons.push(format!(
                "limits.{name}: {}, must be from {} to {}",
                text(value),
                text(least),
                text(ceiling)
            ));
        }
        value
    };
    let memory = number("memory", asked.memory, defaults.memory, ceilings.memory, 1 << 20);
    let output = number("output", asked.output, defaults.output, ceilings.output, 0);
    let workspace = number("workspace", asked.workspace, defaults.workspace, ceilings.workspace, 0);
    let files = number("files", asked.files, defaults.files, ceilings.files, 0);
    let fuel = asked.fuel.or(defaults.fuel);
    if let Some(fuel) = fuel {
        number("fuel", Some(fuel), fuel, ceilings.fuel.unwrap_or(u64::MAX / 4), 1);
    }
    let timeout = asked.timeout.unwrap_or(defaults.timeout);
    if timeout < Duration::from_millis(1) || timeout > ceilings.timeout {
        reasons.push(format!(
            "limits.timeout: {} s, must be from 0.001 to {} s",
            timeout.as_secs_f64(),
            ceilings.timeout.as_secs_f64()
        ));
    }
    Bounds {
        timeout,
        memory,
        fuel,
        output,
        workspace,
        files,
    }
}

fn check_files(request: &Request, reasons: &mut Vec<String>) {
    for file in &request.files {
        if let Err(why) = check_relative(&file.path) {
            reasons.push(format!("files: {:?} {why}", file.path));
        }
    }
}

/// A path in the workspace: relative, `/`-separated, and staying inside.
fn check_relative(path: &str) -> Result<(), &'static str> {
    if path.is_empty() {
        return Err("is empty");
    }
    if path.starts_with('/') {
        return Err("is absolute; name it relative to the workspace");
    }
    if path.contains('\0') || path.contains('\\') {
        return Err("holds a character that no path here may hold");
    }
    if path.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Err("has an empty part, `.` or `..`");
    }
    Ok(())
}

/// Guest directories that mounts may not cover.
const TAKEN: [&str; 4] = ["workspace", "tmp", "usr", "packages"];

fn check_mounts(request: &Request, reasons: &mut Vec<String>) {
    for (index, mount) in request.mounts.iter().enumerate() {
        let inside = mount.guest.strip_prefix('/').unwrap_or("");
        if check_relative(inside).is_err() {
            reasons.push(format!("mounts: {:?} is not an absolute path", mount.guest));
        } else if TAKEN.contains(&inside.split('/').next().unwrap_or("")) {
            reasons.push(format!("mounts: {:?} belongs to the sandbox", mount.guest));
        } else if request.mounts[..index].iter().any(|m| m.guest == mount.guest) {
            reasons.push(format!("mounts: {:?} is given twice", mount.guest));
        }
        if !mount.host.is_dir() {
            reasons.push(format!("mounts: {} is not a directory", mount.host.display()));
        }
    }
}

fn check_environment(request: &Request, reasons: &mut Vec<String>) {
    for (name, value) in &request.env {
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            reasons.push(format!("env: {name:?} is not a variable that can be set"));
        }
    }
    if request.args.iter().any(|a| a.contains('\0')) {
        reasons.push("args: an argument holds a NUL character".into());
    }
}

/// Bytes as they are asked for: in MiB, where they are whole ones.
fn mib_text(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) {
        format!("{} MiB", bytes >> 20)
    } else {
        format!("{bytes} bytes")
    }
}

/// Seconds as a person would write them: no more digits than needed.
pub(crate) fn seconds_text(duration: Duration) -> String {
    let seconds = duration.as_secs_f64();
    if seconds.fract() == 0.0 {
        format!("{seconds:.0}")
    } else {
        format!("{seconds}")
    }
}

impl Default for Rules {
    /// The `strict` policy.
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
        resolve(request, &Bounds::default(), &Bounds::CEILINGS).unwrap_err().reasons
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
    fn memory_is_told_in_the_unit_in_which_it_is_asked_for() {
        assert_eq!(
            refusal(Request::new("").memory_mib(9999)),
            ["limits.memory: 9999 MiB, must be from 1 MiB to 3072 MiB"]
        );
        let limits = Limits {
            memory: Some(1000),
            output: Some(1 << 40),
            ..Limits::default()
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
