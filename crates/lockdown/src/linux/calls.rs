//! seccomp: the system calls that a process gives up.
//!
//! Denied calls fail with `EPERM`. Ending the process instead would let a guest that has broken
//! out end everybody's runs with one call, which it can do anyway; and a library that tries a call
//! and goes on without it is not broken. Only calls of another architecture end the process:
//! nothing but an attack makes them. Calls that are newer than this file fail with `ENOSYS`, as on
//! an older kernel, and so do `clone3` and `openat2`, whose flags a filter cannot see: C libraries
//! and cap-std use `clone` and `openat` then.
#![expect(unsafe_code, reason = "whether filters are known is asked by `prctl`")]

use std::collections::BTreeMap;
use std::io;

use seccompiler::SeccompCmpArgLen::{Dword, Qword};
use seccompiler::SeccompCmpOp::{Eq, MaskedEq, Ne};
use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCondition, SeccompFilter, SeccompRule,
    TargetArch, apply_filter_all_threads, sock_filter,
};

use crate::plan::Lockdown;
use crate::status::LockdownError;

/// The first number that this file does not know; from 424 on numbers are the same for all
/// processors.
const UNKNOWN: u32 = 471;
/// `clone3` and `openat2` everywhere.
const HIDE_THEIR_FLAGS: [u32; 2] = [435, 437];

/// Denied whatever the arguments.
const DENIED: &[i64] = &[
    // Programs and other processes.
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    libc::SYS_process_mrelease,
    libc::SYS_tkill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sched_setparam,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_setattr,
    libc::SYS_ioprio_set,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    // Who this process is.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    libc::SYS_personality,
    // Leaving the group and the session that it is ended with.
    libc::SYS_setpgid,
    libc::SYS_setsid,
    // Namespaces and mounts.
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_chroot,
    libc::SYS_pivot_root,
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    OPEN_TREE_ATTR,
    // Parts of the kernel that have let people in.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_io_setup,
    libc::SYS_io_submit,
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_fanotify_init,
    libc::SYS_fanotify_mark,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_vmsplice,
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_memfd_secret,
    LSM_SET_SELF_ATTR,
    // The machine.
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_syslog,
    libc::SYS_vhangup,
    // Memory and messages that other processes share.
    libc::SYS_shmget,
    libc::SYS_shmat,
    libc::SYS_shmctl,
    libc::SYS_semget,
    libc::SYS_semop,
    libc::SYS_semtimedop,
    libc::SYS_semctl,
    libc::SYS_msgget,
    libc::SYS_msgsnd,
    libc::SYS_msgrcv,
    libc::SYS_msgctl,
    libc::SYS_mq_open,
    libc::SYS_mq_unlink,
    // Files without their names, and changes to files that Landlock does not cover.
    libc::SYS_name_to_handle_at,
    libc::SYS_open_by_handle_at,
    libc::SYS_mknodat,
    libc::SYS_truncate,
    libc::SYS_fchmodat,
    FCHMODAT2,
    libc::SYS_fchownat,
    libc::SYS_fchown,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    GETXATTRAT,
    LISTXATTRAT,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_removexattr,
    libc::SYS_lremovexattr,
    libc::SYS_fremovexattr,
    SETXATTRAT,
    REMOVEXATTRAT,
    FILE_SETATTR,
    // Servers.
    libc::SYS_bind,
    libc::SYS_listen,
];

/// What only this processor's kernel has beside them: older calls, mostly.
#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[i64] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_kexec_file_load,
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_inotify_init,
    libc::SYS_mknod,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
];
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
const DENIED_HERE: &[i64] = &[KEXEC_FILE_LOAD];
#[cfg(not(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64"
)))]
const DENIED_HERE: &[i64] = &[];

// Those that `libc` does not name for every C library.
const FCHMODAT2: i64 = 452;
const LSM_SET_SELF_ATTR: i64 = 460;
const SETXATTRAT: i64 = 463;
const GETXATTRAT: i64 = 464;
const LISTXATTRAT: i64 = 465;
const REMOVEXATTRAT: i64 = 466;
const OPEN_TREE_ATTR: i64 = 467;
const FILE_SETATTR: i64 = 469;
#[cfg(any(target_arch = "aarch64", target_arch = "riscv64"))]
const KEXEC_FILE_LOAD: i64 = 294;

/// `UFFD_USER_MODE_ONLY`.
const USER_MODE_ONLY: u64 = 1;
/// `PR_SET_PTRACER`.
const SET_PTRACER: u64 = 0x5961_6d61;
/// `TIOCSTI`, `TIOCLINUX` and `TIOCSETD`, the same for all processors that filters are made for.
const TYPE_A_LETTER: u64 = 0x5412;
const MOVE_THE_CONSOLE: u64 = 0x541c;
const LOAD_A_LINE_DISCIPLINE: u64 = 0x5423;
/// `FIOSETOWN` and `SIOCSPGRP`, as well.
const OWN_A_SOCKET: [u64; 2] = [0x8901, 0x8902];
/// `F_SETOWN`, `F_SETSIG` and `F_SETOWN_EX`, as well.
const OWN_A_FILE: [u64; 3] = [8, 10, 15];
/// `F_SETLEASE`, with which others wait to open a file, and `F_NOTIFY`.
const WATCH_OTHERS: [u64; 2] = [1024, 1026];
/// The bits of an `ioctl`'s number that say whose it is, and those that change files which are open
/// to read: of file systems in general, of ext4, of btrfs and of f2fs. Landlock sees none of them.
const WHOSE: u64 = 0xff00;
const OF_FILE_SYSTEMS: [u64; 5] = [0x5800, 0x6600, 0x7600, 0x9400, 0xf500];
/// `PAGEMAP_SCAN` is among them.
const SCAN_PAGES: u64 = 0xc060_6610;
/// The bits of `open`'s flags that say whether to read or write. All of them mean neither: such a
/// file is open, but Landlock asks for no right.
const OPEN_FOR: u64 = 3;
/// An old way to packet sockets.
const SOCK_PACKET: i32 = 10;
/// The bits of a socket's type that are not flags.
const SOCKET_TYPE: u64 = 0xf;

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Whether this kernel filters system calls.
pub(super) fn are_filtered() -> bool {
    let action = libc::SECCOMP_RET_ERRNO;
    // SAFETY: the kernel reads the four bytes of the action.
    let known = unsafe {
        let action = &raw const action;
        libc::syscall(libc::SYS_seccomp, libc::SECCOMP_GET_ACTION_AVAIL, 0, action)
    };
    known == 0
}

/// Filters the system calls of every thread.
pub(super) fn hold(plan: &Lockdown) -> Result<(), LockdownError> {
    let target = TargetArch::try_from(std::env::consts::ARCH);
    let target = target.map_err(|_| LockdownError::Processor)?;
    let refused = |error: BackendError| LockdownError::Seccomp(io::Error::other(error));
    let rules = rules(plan).map_err(refused)?;
    let denied = SeccompAction::Errno(libc::EPERM.cast_unsigned());
    let filter =
        SeccompFilter::new(rules, SeccompAction::Allow, denied, target).map_err(refused)?;
    let program: BpfProgram = filter.try_into().map_err(refused)?;
    for program in [program, regardless()] {
        apply_filter_all_threads(&program)
            .map_err(|error| LockdownError::Seccomp(io::Error::other(error)))?;
    }
    Ok(())
}

/// Makes the filter of calls that fail whatever their arguments are. When a filter is installed,
/// the kernel tries it on every number: a tree takes a tenth of the time that a list takes.
fn regardless() -> BpfProgram {
    const LOAD_WORD: u16 = 0x20;
    let denied = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
    let absent = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();
    let mut results: BTreeMap<u32, u32> =
        DENIED.iter().chain(DENIED_HERE).map(|call| (*call as u32, denied)).collect();
    results.extend(HIDE_THEIR_FLAGS.map(|call| (call, absent)));
    let allowed = libc::SECCOMP_RET_ALLOW;
    // What holds from a number on.
    let mut parts = vec![(0, allowed)];
    let mut begin = |number: u32, result: u32| {
        parts.retain(|(from, _)| *from != number);
        if parts.last().is_none_or(|(_, last)| *last != result) {
            parts.push((number, result));
        }
    };
    for (number, result) in results {
        begin(number, result);
        begin(number + 1, allowed);
    }
    // x32 is among them, whose numbers are high.
    begin(UNKNOWN, absent);
    // A filter reads the number of the call at offset 0.
    let mut program = vec![instruction(LOAD_WORD, 0, 0, 0)];
    tree(&parts, &mut program);
    program
}

/// Appends a search for the part that a number is in. Of a hundred parts, half are reached by a
/// jump of at most 255 instructions.
fn tree(parts: &[(u32, u32)], program: &mut BpfProgram) {
    const JUMP_IF_AT_LEAST: u16 = 0x35;
    const RETURN: u16 = 0x06;
    let (low, high) = match parts {
        [] => return,
        [(_, result)] => return program.push(instruction(RETURN, *result, 0, 0)),
        _ => parts.split_at(parts.len() / 2),
    };
    let place = program.len();
    program.push(instruction(JUMP_IF_AT_LEAST, high[0].0, 0, 0));
    tree(low, program);
    program[place].jt = (program.len() - place - 1) as u8;
    tree(high, program);
}

fn instruction(code: u16, k: u32, jt: u8, jf: u8) -> sock_filter {
    sock_filter { code, jt, jf, k }
}

fn rules(plan: &Lockdown) -> Result<Rules, BackendError> {
    let mut rules = Rules::new();
    let own = u64::from(std::process::id());
    let mut deny = |call: i64, conditions: &[(u8, Kind, u64)]| {
        let conditions = conditions.iter().map(|(argument, kind, value)| {
            let (length, operator) = match kind {
                Kind::Is => (Dword, Eq),
                Kind::IsNot => (Dword, Ne),
                Kind::IsNotLong => (Qword, Ne),
                Kind::Has(mask) => (Dword, MaskedEq(*mask)),
            };
            SeccompCondition::new(*argument, length, operator, *value)
        });
        let rule = SeccompRule::new(conditions.collect::<Result<_, _>>()?)?;
        rules.entry(call).or_default().push(rule);
        Ok::<_, BackendError>(())
    };
    // No process, only threads; and those in no namespace of their own.
    deny(libc::SYS_clone, &[(0, Kind::Has(flag(libc::CLONE_THREAD)), 0)])?;
    for namespace in [
        libc::CLONE_NEWCGROUP,
        libc::CLONE_NEWIPC,
        libc::CLONE_NEWNET,
        libc::CLONE_NEWNS,
        libc::CLONE_NEWPID,
        libc::CLONE_NEWUSER,
        libc::CLONE_NEWUTS,
    ] {
        let namespace = flag(namespace);
        deny(libc::SYS_clone, &[(0, Kind::Has(namespace), namespace)])?;
    }
    // Others' priorities, processors and limits.
    deny(libc::SYS_setpriority, &[(0, Kind::IsNot, 0)])?;
    for (call, argument) in
        [(libc::SYS_setpriority, 1), (libc::SYS_sched_setaffinity, 0), (libc::SYS_prlimit64, 0)]
    {
        deny(call, &[(argument, Kind::IsNot, 0), (argument, Kind::IsNot, own)])?;
    }
    // Signals. Landlock denies them too, from ABI 6 on.
    deny(libc::SYS_tgkill, &[(0, Kind::IsNot, own)])?;
    if !plan.ends_children {
        deny(libc::SYS_kill, &[(0, Kind::IsNot, own)])?;
        deny(libc::SYS_pidfd_send_signal, &[(1, Kind::Has(0), 0)])?;
    }
    // What would undo other parts of this.
    // And the signal that this process gets when its parent ends.
    for option in [flag(libc::PR_SET_MM), SET_PTRACER, flag(libc::PR_SET_PDEATHSIG)] {
        deny(libc::SYS_prctl, &[(0, Kind::Is, option)])?;
    }
    let dumpable = flag(libc::PR_SET_DUMPABLE);
    deny(libc::SYS_prctl, &[(0, Kind::Is, dumpable), (1, Kind::IsNotLong, 0)])?;
    // Typing into the terminal that this process shares.
    for request in [TYPE_A_LETTER, MOVE_THE_CONSOLE, LOAD_A_LINE_DISCIPLINE] {
        deny(libc::SYS_ioctl, &[(1, Kind::Is, request)])?;
    }
    // Having the kernel signal another process when there is something to read.
    for request in OWN_A_SOCKET {
        deny(libc::SYS_ioctl, &[(1, Kind::Is, request)])?;
    }
    for command in OWN_A_FILE.into_iter().chain(WATCH_OTHERS) {
        deny(libc::SYS_fcntl, &[(1, Kind::Is, command)])?;
    }
    for whose in OF_FILE_SYSTEMS {
        let is_theirs = (1, Kind::Has(WHOSE), whose);
        deny(libc::SYS_ioctl, &[is_theirs, (1, Kind::IsNot, SCAN_PAGES)])?;
    }
    opening(&mut deny)?;
    // As the engine asks for it: for faults of this process's own code.
    let watching = flag(libc::O_CLOEXEC) | USER_MODE_ONLY;
    deny(libc::SYS_userfaultfd, &[(0, Kind::IsNot, watching)])?;
    // Times of files by name; those of an open file have none.
    deny(libc::SYS_utimensat, &[(1, Kind::IsNotLong, 0)])?;
    sockets(plan, &mut deny)?;
    Ok(rules)
}

/// Ways to open a file for which Landlock asks too little: neither to read nor to write it, and,
/// before ABI 3, to read and truncate it.
fn opening(
    deny: &mut impl FnMut(i64, &[(u8, Kind, u64)]) -> Result<(), BackendError>,
) -> Result<(), BackendError> {
    let truncates = flag(libc::O_TRUNC);
    #[cfg(target_arch = "x86_64")]
    let calls = [(libc::SYS_openat, 2), (libc::SYS_open, 1)];
    #[cfg(not(target_arch = "x86_64"))]
    let calls = [(libc::SYS_openat, 2)];
    for (call, flags) in calls {
        deny(call, &[(flags, Kind::Has(OPEN_FOR), OPEN_FOR)])?;
        deny(call, &[(flags, Kind::Has(OPEN_FOR | truncates), truncates)])?;
    }
    Ok(())
}

/// Pairs of streams are what threads wake each other with.
fn sockets(
    plan: &Lockdown,
    deny: &mut impl FnMut(i64, &[(u8, Kind, u64)]) -> Result<(), BackendError>,
) -> Result<(), BackendError> {
    // Connections without `connect`, which Landlock does not see: also from a socket that listened.
    let connects = flag(libc::MSG_FASTOPEN);
    for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        deny(call, &[(flags, Kind::Has(connects), connects)])?;
    }
    // Other protocols on top of TCP, which the kernel loads modules for.
    let tcp = flag(libc::IPPROTO_TCP);
    let upper = flag(libc::TCP_ULP);
    deny(libc::SYS_setsockopt, &[(1, Kind::Is, tcp), (2, Kind::Is, upper)])?;
    deny(libc::SYS_socketpair, &[(0, Kind::IsNot, flag(libc::AF_UNIX))])?;
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_SEQPACKET] {
        deny(libc::SYS_socketpair, &[(1, Kind::Has(SOCKET_TYPE), flag(kind))])?;
    }
    if plan.ports.is_empty() {
        deny(libc::SYS_socket, &[(0, Kind::Has(0), 0)])?;
        deny(libc::SYS_connect, &[(0, Kind::Has(0), 0)])?;
        return Ok(());
    }
    let families = [flag(libc::AF_INET), flag(libc::AF_INET6)];
    deny(libc::SYS_socket, &families.map(|family| (0, Kind::IsNot, family)))?;
    let others = [libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_SEQPACKET, libc::SOCK_DCCP];
    let datagrams = (!plan.resolves_names).then_some(libc::SOCK_DGRAM);
    for kind in others.into_iter().chain([SOCK_PACKET]).chain(datagrams) {
        deny(libc::SYS_socket, &[(1, Kind::Has(SOCKET_TYPE), flag(kind))])?;
    }
    // Others, such as multipath TCP, go past Landlock's rules for ports.
    let protocols = [0, flag(libc::IPPROTO_TCP), flag(libc::IPPROTO_UDP)];
    deny(libc::SYS_socket, &protocols.map(|protocol| (2, Kind::IsNot, protocol)))
}

/// How an argument is compared.
#[derive(Clone, Copy)]
enum Kind {
    Is,
    IsNot,
    /// All of its 64 bits.
    IsNotLong,
    /// The bits of a mask.
    Has(u64),
}

/// A constant of C, none of which is negative.
fn flag(value: i32) -> u64 {
    u64::from(value.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_plan_makes_a_filter() {
        let plans = [
            Lockdown::new(),
            Lockdown::new().connect(443),
            Lockdown::new().resolve_names().end_children(),
        ];
        for plan in plans {
            let rules = rules(&plan).unwrap();
            assert!(rules.keys().all(|call| !DENIED.contains(call)), "a rule has no effect");
            let target = TargetArch::try_from(std::env::consts::ARCH).unwrap();
            let (allow, deny) = (SeccompAction::Allow, SeccompAction::Errno(1));
            let filter = SeccompFilter::new(rules, allow, deny, target).unwrap();
            let program: BpfProgram = filter.try_into().unwrap();
            // The kernel tries it on every number when it is installed.
            assert!(program.len() < 400, "{}", program.len());
        }
    }

    #[test]
    fn no_call_is_denied_twice() {
        let mut all: Vec<i64> = DENIED.iter().chain(DENIED_HERE).copied().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(all.iter().all(|call| *call < i64::from(UNKNOWN)));
    }

    /// Follows the tree as the kernel does.
    fn result_of(number: u32, program: &[sock_filter]) -> u32 {
        let mut place = 1;
        loop {
            let step = &program[place];
            match step.code {
                0x06 => return step.k,
                0x35 if number >= step.k => place += 1 + usize::from(step.jt),
                0x35 => place += 1 + usize::from(step.jf),
                code => panic!("{code}"),
            }
        }
    }

    #[test]
    fn the_tree_denies_what_the_lists_name_and_nothing_else() {
        let program = regardless();
        let high = [UNKNOWN, UNKNOWN + 1, 0x4000_003b, u32::MAX];
        for number in (0..UNKNOWN).chain(high) {
            let is_denied = DENIED.iter().chain(DENIED_HERE).any(|call| *call == i64::from(number));
            let is_absent = HIDE_THEIR_FLAGS.contains(&number) || number >= UNKNOWN;
            let expected = match (is_denied, is_absent) {
                (true, _) => libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned(),
                (_, true) => libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned(),
                _ => libc::SECCOMP_RET_ALLOW,
            };
            assert_eq!(result_of(number, &program), expected, "{number}");
        }
    }
}
