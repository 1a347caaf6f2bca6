//! Landlock: files, ports, signals and abstract sockets.
#![expect(
    unsafe_code,
    reason = "the kernel's ABI has no safe wrapper that tells its number"
)]

use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, AddRuleError, AddRulesError, BitFlags, CompatLevel,
    Compatible, NetPort, PathBeneath, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, Scope, make_bitflags,
};

use super::threads;
use crate::plan::Lockdown;
use crate::status::LockdownError;

/// The newest that the rules below were written for.
const NEWEST: ABI = ABI::V10;
/// The first whose `landlock_restrict_self` can hold all threads by itself.
const ALL_THREADS: u32 = 8;

/// What every process reads now and then.
const ALWAYS: &[&str] = &["/dev/urandom", "/etc/localtime", "/proc/self", "/usr/share/zoneinfo"];

const READ: BitFlags<AccessFs> = make_bitflags!(AccessFs::{ReadFile | ReadDir});
const WRITE: BitFlags<AccessFs> = make_bitflags!(AccessFs::{
    ReadFile | ReadDir | WriteFile | Truncate | MakeReg | MakeDir | MakeSym | RemoveFile | RemoveDir | Refer
});

/// The kernel's ABI, if it has Landlock and it is turned on.
pub(super) fn abi() -> Option<u32> {
    const VERSION: u32 = 1;
    let nothing = std::ptr::null::<u8>();
    // SAFETY: asked for its version, the kernel reads nothing and makes nothing.
    let abi =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, nothing, 0_usize, VERSION) };
    u32::try_from(abi).ok().filter(|abi| *abi > 0)
}

/// Holds every thread, and returns the ABI by which it does.
pub(super) fn hold(plan: &Lockdown, failures: &mut Vec<LockdownError>) -> Option<u32> {
    let Some(abi) = abi() else {
        failures.push(LockdownError::NoLandlock);
        return None;
    };
    let rules = match rules(plan, failures) {
        Ok(rules) => rules,
        Err(error) => {
            failures.push(LockdownError::Landlock(io::Error::other(error)));
            return None;
        }
    };
    // None where the kernel handles nothing of it, which no ABI does.
    let fd: Option<OwnedFd> = rules.into();
    let Some(fd) = fd else {
        failures.push(LockdownError::NoLandlock);
        return None;
    };
    let held = if abi >= ALL_THREADS {
        threads::hold_at_once(&fd)
    } else {
        threads::hold_each(&fd)
    };
    match held {
        Ok(()) => Some(abi),
        Err(error) => {
            failures.push(error);
            None
        }
    }
}

fn rules(
    plan: &Lockdown,
    failures: &mut Vec<LockdownError>,
) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        .handle_access(AccessNet::from_all(NEWEST))?
        .scope(Scope::AbstractUnixSocket)?;
    if !plan.ends_children {
        ruleset = ruleset.scope(Scope::Signal)?;
    }
    let mut created = ruleset.create()?;
    let paths = |paths: &'_ [std::path::PathBuf], access| {
        paths.iter().map(move |path| (path.clone(), access)).collect::<Vec<_>>()
    };
    let mut all = paths(&plan.reads, READ);
    all.extend(ALWAYS.iter().map(|path| (path.into(), READ)));
    all.push(("/dev/null".into(), READ | AccessFs::WriteFile));
    all.extend(paths(&plan.writes, WRITE));
    all.extend(paths(&plan.unlinks, AccessFs::RemoveFile.into()));
    all.extend(paths(&plan.removes, AccessFs::RemoveDir.into()));
    for (path, access) in all {
        match open(&path) {
            Ok(Some((file, is_dir))) => {
                let access = if is_dir {
                    access
                } else {
                    access & AccessFs::from_file(NEWEST)
                };
                if access.is_empty() {
                    continue;
                }
                // One path that cannot be kept is no reason to keep all others.
                match (&mut created).add_rule(PathBeneath::new(file, access)) {
                    Ok(_) => {}
                    Err(error) if is_never_held(&error) => {}
                    Err(error) => {
                        let source = io::Error::other(error);
                        failures.push(LockdownError::Path { path, source });
                    }
                }
            }
            Ok(None) => {}
            Err(source) => failures.push(LockdownError::Path { path, source }),
        }
    }
    for port in &plan.ports {
        created = created.add_rule(NetPort::new(*port, AccessNet::ConnectTcp))?;
    }
    if plan.resolves_names {
        created = created
            .add_rule(NetPort::new(53, AccessNet::ConnectSendUdp))?
            .add_rule(NetPort::new(0, AccessNet::BindUdp))?;
    }
    Ok(created)
}

/// What has the name now, and whether it is a directory; `None` where nothing has it.
fn open(path: &Path) -> io::Result<Option<(File, bool)>> {
    let name = CString::new(path.as_os_str().as_bytes())?;
    // Not by `custom_flags`, which loses `O_PATH` with musl.
    // SAFETY: the name ends in zero.
    let opened = unsafe { libc::open(name.as_ptr(), libc::O_PATH | libc::O_CLOEXEC) };
    if opened == -1 {
        let error = io::Error::last_os_error();
        return if is_absent(&error) {
            Ok(None)
        } else {
            Err(error)
        };
    }
    // SAFETY: nothing else has the descriptor.
    let file = unsafe { File::from_raw_fd(opened) };
    let is_dir = file.metadata()?.is_dir();
    Ok(Some((file, is_dir)))
}

/// What has no place in a file system, such as the pipe that `/dev/stdin` may be: Landlock lets it
/// be opened, and takes no rule for it.
fn is_never_held(error: &RulesetError) -> bool {
    match error {
        RulesetError::AddRules(AddRulesError::Fs(AddRuleError::AddRuleCall { source, .. })) => {
            source.raw_os_error() == Some(libc::EBADFD)
        }
        _ => false,
    }
}

/// A name that leads nowhere, or where this process cannot go anyway.
fn is_absent(error: &io::Error) -> bool {
    use io::ErrorKind::{NotADirectory, NotFound, PermissionDenied};
    matches!(error.kind(), NotFound | NotADirectory | PermissionDenied)
}
