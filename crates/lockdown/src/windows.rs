//! Windows: policies of the process, the privileges of its token, and a job object. A token that is
//! restricted can only be given to a new process, so files and the network stay as they are.
#![expect(unsafe_code, reason = "the system's functions have no safe wrapper")]

use std::io;
use std::ptr;

use windows_sys::Win32::Foundation::{CloseHandle, HANDLE};
use windows_sys::Win32::Security::{
    AdjustTokenPrivileges, GetTokenInformation, LUID_AND_ATTRIBUTES, SE_PRIVILEGE_REMOVED,
    TOKEN_ADJUST_PRIVILEGES, TOKEN_QUERY, TokenPrivileges,
};
use windows_sys::Win32::System::JobObjects::{
    AssignProcessToJobObject, CreateJobObjectW, JOB_OBJECT_LIMIT_ACTIVE_PROCESS,
    JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE, JOB_OBJECT_UILIMIT_DESKTOP,
    JOB_OBJECT_UILIMIT_DISPLAYSETTINGS, JOB_OBJECT_UILIMIT_EXITWINDOWS,
    JOB_OBJECT_UILIMIT_GLOBALATOMS, JOB_OBJECT_UILIMIT_HANDLES, JOB_OBJECT_UILIMIT_READCLIPBOARD,
    JOB_OBJECT_UILIMIT_SYSTEMPARAMETERS, JOB_OBJECT_UILIMIT_WRITECLIPBOARD,
    JOBOBJECT_BASIC_UI_RESTRICTIONS, JOBOBJECT_EXTENDED_LIMIT_INFORMATION, JOBOBJECTINFOCLASS,
    JobObjectBasicUIRestrictions, JobObjectExtendedLimitInformation, SetInformationJobObject,
};
use windows_sys::Win32::System::Threading::{
    GetCurrentProcess, OpenProcessToken, PROCESS_MITIGATION_POLICY, ProcessChildProcessPolicy,
    ProcessExtensionPointDisablePolicy, ProcessImageLoadPolicy, ProcessStrictHandleCheckPolicy,
    SetProcessMitigationPolicy,
};
use windows_sys::core::BOOL;

use crate::plan::Lockdown;
use crate::status::{LockdownError, Status, Support};

const NAME: &str = "a job object, mitigation policies and no privileges, which leave files and \
                    the network as they are and were never tried on Windows, only under Wine";

/// Flags of each policy. None concerns code that is made at run time, which the engine does.
const POLICIES: [(&str, PROCESS_MITIGATION_POLICY, u32); 4] = [
    ("the policy against child processes", ProcessChildProcessPolicy, 1),
    // Images from other machines, and images with low integrity.
    ("the policy for images", ProcessImageLoadPolicy, 1 | 2),
    ("the policy against extension points", ProcessExtensionPointDisablePolicy, 1),
    // An exception, and for good.
    ("the policy for handles", ProcessStrictHandleCheckPolicy, 1 | 2),
];

const SCREEN: u32 = JOB_OBJECT_UILIMIT_DESKTOP
    | JOB_OBJECT_UILIMIT_DISPLAYSETTINGS
    | JOB_OBJECT_UILIMIT_EXITWINDOWS
    | JOB_OBJECT_UILIMIT_GLOBALATOMS
    | JOB_OBJECT_UILIMIT_HANDLES
    | JOB_OBJECT_UILIMIT_READCLIPBOARD
    | JOB_OBJECT_UILIMIT_SYSTEMPARAMETERS
    | JOB_OBJECT_UILIMIT_WRITECLIPBOARD;

pub(crate) fn support() -> Support {
    Support {
        landlock: None,
        seccomp: false,
        other: Some(NAME),
    }
}

/// Nothing of a plan matters: it names files, ports and signals.
pub(crate) fn apply(_: &Lockdown) -> Status {
    let mut failures = Vec::new();
    let mut fails = |what, result: io::Result<()>| {
        failures.extend(result.err().map(|source| LockdownError::Setting { what, source }));
    };
    for (what, policy, flags) in POLICIES {
        fails(what, set_policy(policy, flags));
    }
    fails("giving up privileges", give_up_privileges());
    let job = enter_job();
    let is_held = job.is_ok();
    match job {
        Ok(job) => fails("limits on the screen and the clipboard", shield_screen(job)),
        Err(error) => fails("a job object", Err(error)),
    }
    Status {
        landlock: None,
        seccomp: false,
        other: is_held.then_some(NAME),
        failures,
    }
}

/// Each is one number of flags, and cannot be taken back.
fn set_policy(policy: PROCESS_MITIGATION_POLICY, flags: u32) -> io::Result<()> {
    // SAFETY: the pointer is to as many bytes as the length says, which are only read.
    checked(unsafe {
        SetProcessMitigationPolicy(policy, (&raw const flags).cast(), size_of_val(&flags))
    })
}

/// As many privileges as a token may have, and room for more: the system has 36.
#[repr(C)]
struct Privileges {
    count: u32,
    list: [LUID_AND_ATTRIBUTES; 64],
}

/// Which everybody has: without it, each directory above a file would have to be open to the user.
const CHANGE_NOTIFY: u32 = 23;

fn give_up_privileges() -> io::Result<()> {
    with_token(|token| {
        let mut held = privileges(token)?;
        for privilege in &mut held.list {
            if privilege.Luid.LowPart != CHANGE_NOTIFY {
                privilege.Attributes = SE_PRIVILEGE_REMOVED;
            }
        }
        let (list, none) = ((&raw const held).cast(), ptr::null_mut());
        // SAFETY: the list has as many entries as it counts; the former state is not asked for.
        checked(unsafe { AdjustTokenPrivileges(token, 0, list, 0, none, ptr::null_mut()) })
    })
}

fn with_token<T>(then: impl FnOnce(HANDLE) -> io::Result<T>) -> io::Result<T> {
    let mut token: HANDLE = ptr::null_mut();
    let rights = TOKEN_QUERY | TOKEN_ADJUST_PRIVILEGES;
    // SAFETY: the handle of this process is no real one and stays valid; `token` takes a handle.
    checked(unsafe { OpenProcessToken(GetCurrentProcess(), rights, &raw mut token) })?;
    let done = then(token);
    // SAFETY: it was opened above, and nothing uses it any more.
    unsafe { CloseHandle(token) };
    done
}

fn privileges(token: HANDLE) -> io::Result<Privileges> {
    let mut held = Privileges {
        count: 0,
        list: [LUID_AND_ATTRIBUTES::default(); 64],
    };
    let mut size = size_of::<Privileges>() as u32;
    let place = (&raw mut held).cast();
    // SAFETY: `held` has the layout of a list of privileges and as many bytes as are told.
    checked(unsafe { GetTokenInformation(token, TokenPrivileges, place, size, &raw mut size) })?;
    Ok(held)
}

/// Makes this process the only one of a job that it cannot leave. The job is never closed: that
/// would end the process.
fn enter_job() -> io::Result<HANDLE> {
    // SAFETY: it takes neither attributes nor a name.
    let job = unsafe { CreateJobObjectW(ptr::null(), ptr::null()) };
    if job.is_null() {
        return Err(io::Error::last_os_error());
    }
    let mut limits = JOBOBJECT_EXTENDED_LIMIT_INFORMATION::default();
    limits.BasicLimitInformation.LimitFlags =
        JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE | JOB_OBJECT_LIMIT_ACTIVE_PROCESS;
    limits.BasicLimitInformation.ActiveProcessLimit = 1;
    set_limits(job, JobObjectExtendedLimitInformation, &limits)?;
    // SAFETY: the job was made above, and the handle of this process stays valid.
    checked(unsafe { AssignProcessToJobObject(job, GetCurrentProcess()) })?;
    Ok(job)
}

/// Where the process was in another job already, the system refuses these, so they come last.
fn shield_screen(job: HANDLE) -> io::Result<()> {
    let limits = JOBOBJECT_BASIC_UI_RESTRICTIONS {
        UIRestrictionsClass: SCREEN,
    };
    set_limits(job, JobObjectBasicUIRestrictions, &limits)
}

fn set_limits<T>(job: HANDLE, class: JOBOBJECTINFOCLASS, limits: &T) -> io::Result<()> {
    let size = size_of::<T>() as u32;
    // SAFETY: callers pass what the class takes, which is only read.
    checked(unsafe { SetInformationJobObject(job, class, ptr::from_ref(limits).cast(), size) })
}

fn checked(succeeded: BOOL) -> io::Result<()> {
    if succeeded == 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use windows_sys::Win32::System::JobObjects::IsProcessInJob;

    use super::*;

    /// It holds the process of the tests, which start none.
    #[test]
    fn privileges_are_gone_and_the_process_is_in_a_job() {
        let names = || -> Vec<u32> {
            let held = with_token(privileges).unwrap();
            held.list[..held.count as usize]
                .iter()
                .map(|privilege| privilege.Luid.LowPart)
                .collect()
        };
        assert!(names().len() > 1, "{:?}", names());
        let status = apply(&Lockdown::new());
        assert!(status.is_whole(), "{:?}", status.failures());
        assert_eq!(names(), [CHANGE_NOTIFY]);
        let mut is_inside = 0;
        let any = ptr::null_mut();
        // SAFETY: the handle of this process stays valid, and `is_inside` takes a truth value.
        checked(unsafe { IsProcessInJob(GetCurrentProcess(), any, &raw mut is_inside) }).unwrap();
        assert_ne!(is_inside, 0);
    }
}
