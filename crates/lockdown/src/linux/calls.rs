//! seccomp: the system calls that a process gives up.
//!
//! Denied calls fail with `EPERM`. Ending the process instead would let a guest that has broken
//! out end everybody's runs with one call, which it can do anyway; and a library that tries a call
//! and goes on without it is not broken. Only calls of another architecture end the process:
//! nothing but an attack makes them. Calls that are newer than this file fail with `ENOSYS`, as on
//! an older kernel, and so do `clone3` and `openat2`, whose flags a filter cannot see: C libraries
//! and cap-std use `clone` and `openat` then.
#![expect(unsafe_code, reason = "`seccomp` has no wrapper in `libc`")]

use std::collections::BTreeMap;
use std::io;

use libc::sock_filter;

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

/// The architecture whose calls the filter knows, as the kernel's audit numbers it.
const ARCHITECTURE: Option<u32> = if cfg!(target_endian = "big") {
    None
} else if cfg!(target_arch = "x86_64") {
    Some(0xc000_003e)
} else if cfg!(target_arch = "aarch64") {
    Some(0xc000_00b7)
} else if cfg!(target_arch = "riscv64") {
    Some(0xc000_00f3)
} else {
    None
};
const ALLOWED: u32 = libc::SECCOMP_RET_ALLOW;
const DENIED_CALL: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM.cast_unsigned();
const ABSENT: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.cast_unsigned();

/// The conditions under which calls are denied: all of one rule, of any rule of the call.
type Rules = BTreeMap<u32, Vec<Vec<Condition>>>;
/// An argument, how it is compared, and with what.
type Condition = (u8, Kind, u64);

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

/// Filters the system calls of every thread. The kernel refuses a filter of a process that could
/// still get privileges.
pub(super) fn hold(plan: &Lockdown) -> Result<(), LockdownError> {
    let architecture = ARCHITECTURE.ok_or(LockdownError::Processor)?;
    let too_far = || LockdownError::Seccomp(io::Error::other("a jump is too long"));
    let mut program = program(architecture, &rules(plan)).ok_or_else(too_far)?;
    let program = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    let (operation, every_thread) =
        (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
    // SAFETY: the kernel reads the program, which lives until after the call.
    match unsafe { libc::syscall(libc::SYS_seccomp, operation, every_thread, &raw const program) } {
        0 => Ok(()),
        -1 => Err(LockdownError::Seccomp(io::Error::last_os_error())),
        thread => {
            let cause = format!("thread {thread} has a filter that this one has not");
            Err(LockdownError::Seccomp(io::Error::other(cause)))
        }
    }
}

/// A filter's decision about a call.
#[derive(Clone, Copy, PartialEq)]
enum Verdict {
    Is(u32),
    /// It depends on the arguments.
    Depends(u32),
}

/// Makes the filter; `None` if a jump in it would be too long. When it is installed, the kernel
/// compiles it and tries it on every number: one filter takes half the time of two, a tree of
/// numbers a tenth of the time of a list, and short programs less than long ones.
fn program(architecture: u32, rules: &Rules) -> Option<Vec<sock_filter>> {
    // Where a filter finds the call's number and its architecture.
    const NUMBER: u32 = 0;
    const ARCHITECTURE: u32 = 4;
    let mut program = Program::default();
    program.push(LOAD_WORD, ARCHITECTURE);
    let known = program.push(JUMP_IF_EQUAL, architecture);
    program.push(RETURN, libc::SECCOMP_RET_KILL_PROCESS);
    program.land(known, true);
    program.push(LOAD_WORD, NUMBER);
    let mut leaves = Leaves::default();
    tree(&parts(rules), &mut program, &mut leaves);
    for result in [ALLOWED, DENIED_CALL, ABSENT] {
        for (place, if_met, _) in leaves.returns.iter().filter(|(.., of)| *of == result) {
            program.land(*place, *if_met);
        }
        program.push(RETURN, result);
    }
    for (place, call) in leaves.jumps {
        program.steps[place].k = (program.steps.len() - place - 1) as u32;
        conditions(&rules[&call], &mut program);
    }
    (!program.is_too_far).then_some(program.steps)
}

/// What holds from a number on, in order.
fn parts(rules: &Rules) -> Vec<(u32, Verdict)> {
    let depends = rules.keys().map(|call| (*call, Verdict::Depends(*call)));
    let denied = DENIED.iter().chain(DENIED_HERE);
    let denied = denied.map(|call| (*call as u32, Verdict::Is(DENIED_CALL)));
    let absent = HIDE_THEIR_FLAGS.map(|call| (call, Verdict::Is(ABSENT)));
    let verdicts: BTreeMap<u32, Verdict> = depends.chain(denied).chain(absent).collect();
    let mut parts = vec![(0, Verdict::Is(ALLOWED))];
    let mut begin = |number: u32, verdict: Verdict| {
        parts.pop_if(|(from, _)| *from == number);
        if parts.last().is_none_or(|(_, last)| *last != verdict) {
            parts.push((number, verdict));
        }
    };
    for (number, verdict) in verdicts {
        begin(number, verdict);
        begin(number + 1, Verdict::Is(ALLOWED));
    }
    // x32 is among them, whose numbers are high.
    begin(UNKNOWN, Verdict::Is(ABSENT));
    parts
}

/// Where the branches of a tree end.
#[derive(Default)]
struct Leaves {
    /// The jump, whether it is for a comparison that is met, and what to return.
    returns: Vec<(usize, bool, u32)>,
    /// The jump, and the call whose arguments decide.
    jumps: Vec<(usize, u32)>,
}

/// Appends a search for the part that a number is in, of two at least.
fn tree(parts: &[(u32, Verdict)], program: &mut Program, leaves: &mut Leaves) {
    let (low, high) = parts.split_at(parts.len() / 2);
    let place = program.push(JUMP_IF_AT_LEAST, high[0].0);
    for (branch, if_met) in [(low, false), (high, true)] {
        match branch {
            [(_, Verdict::Is(result))] => leaves.returns.push((place, if_met, *result)),
            [(_, Verdict::Depends(call))] => {
                program.land(place, if_met);
                leaves.jumps.push((program.push(JUMP, 0), *call));
            }
            _ => {
                program.land(place, if_met);
                tree(branch, program, leaves);
            }
        }
    }
}

/// Appends the rules of a call.
fn conditions(rules: &[Vec<Condition>], program: &mut Program) {
    // Where a filter finds the first argument; each has two words, the low one first.
    const ARGUMENTS: u32 = 16;
    // Jumps to the end, where the call is denied, as those of a tree.
    let mut denied = Vec::new();
    // The word that is loaded, whichever way this place is reached.
    let mut loaded = None;
    for rule in rules {
        // Jumps to the next rule.
        let mut next = Vec::new();
        for (at, (argument, kind, value)) in rule.iter().enumerate() {
            let (is_last, low) = (at + 1 == rule.len(), ARGUMENTS + 8 * u32::from(*argument));
            let mut compare = |word: u32, mask: Option<u64>, value: u64| {
                if loaded != Some(word) {
                    program.push(LOAD_WORD, word);
                }
                // The next rule is reached from here alone if this one has no other condition.
                loaded = Some(word).filter(|_| mask.is_none() && rule.len() == 1);
                if let Some(mask) = mask {
                    program.push(AND, mask as u32);
                }
                program.push(JUMP_IF_EQUAL, value as u32)
            };
            let (place, is_met_by) = match kind {
                Kind::Is => (compare(low, None, *value), true),
                Kind::Has(mask) => (compare(low, Some(*mask), *value), true),
                Kind::IsNot => (compare(low, None, *value), false),
                Kind::IsNotLong => {
                    // A condition that is met does not deny yet, if another condition follows.
                    debug_assert!(is_last, "a long comparison is the last of its rule");
                    denied.push((compare(low + 4, None, *value >> 32), false));
                    (compare(low, None, *value), false)
                }
            };
            next.push((place, !is_met_by));
            if is_last {
                denied.push((place, is_met_by));
            }
        }
        for (place, if_met) in next {
            program.land(place, if_met);
        }
    }
    program.push(RETURN, ALLOWED);
    for (place, if_met) in denied {
        program.land(place, if_met);
    }
    program.push(RETURN, DENIED_CALL);
}

// What a filter is made of.
const LOAD_WORD: u16 = 0x20;
const AND: u16 = 0x54;
const JUMP: u16 = 0x05;
const JUMP_IF_EQUAL: u16 = 0x15;
const JUMP_IF_AT_LEAST: u16 = 0x35;
const RETURN: u16 = 0x06;

/// A filter that is being written.
#[derive(Default)]
struct Program {
    steps: Vec<sock_filter>,
    /// Whether a jump is longer than 255 steps.
    is_too_far: bool,
}

impl Program {
    /// Appends a step, and returns its place. A comparison goes on with the next step.
    fn push(&mut self, code: u16, k: u32) -> usize {
        let (jt, jf) = (0, 0);
        self.steps.push(sock_filter { code, jt, jf, k });
        self.steps.len() - 1
    }

    /// Has a comparison jump here, if it is met or if it is not.
    fn land(&mut self, place: usize, if_met: bool) {
        let distance = u8::try_from(self.steps.len() - place - 1);
        self.is_too_far |= distance.is_err();
        let step = &mut self.steps[place];
        let jump = if if_met { &mut step.jt } else { &mut step.jf };
        *jump = distance.unwrap_or_default();
    }
}

fn rules(plan: &Lockdown) -> Rules {
    let mut rules = Rules::new();
    let own = u64::from(std::process::id());
    let mut deny = |call: i64, conditions: &[Condition]| {
        rules.entry(call as u32).or_default().push(conditions.to_vec());
    };
    // No process, only threads; and those in no namespace of their own.
    deny(libc::SYS_clone, &[(0, Kind::Has(flag(libc::CLONE_THREAD)), 0)]);
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
        deny(libc::SYS_clone, &[(0, Kind::Has(namespace), namespace)]);
    }
    // Others' priorities, processors and limits.
    deny(libc::SYS_setpriority, &[(0, Kind::IsNot, 0)]);
    for (call, argument) in
        [(libc::SYS_setpriority, 1), (libc::SYS_sched_setaffinity, 0), (libc::SYS_prlimit64, 0)]
    {
        deny(call, &[(argument, Kind::IsNot, 0), (argument, Kind::IsNot, own)]);
    }
    // Signals. Landlock denies them too, from ABI 6 on.
    deny(libc::SYS_tgkill, &[(0, Kind::IsNot, own)]);
    if !plan.ends_children {
        deny(libc::SYS_kill, &[(0, Kind::IsNot, own)]);
        deny(libc::SYS_pidfd_send_signal, &[(1, Kind::Has(0), 0)]);
    }
    // What would undo other parts of this.
    // And the signal that this process gets when its parent ends.
    for option in [flag(libc::PR_SET_MM), SET_PTRACER, flag(libc::PR_SET_PDEATHSIG)] {
        deny(libc::SYS_prctl, &[(0, Kind::Is, option)]);
    }
    let dumpable = flag(libc::PR_SET_DUMPABLE);
    deny(libc::SYS_prctl, &[(0, Kind::Is, dumpable), (1, Kind::IsNotLong, 0)]);
    // Typing into the terminal that this process shares.
    for request in [TYPE_A_LETTER, MOVE_THE_CONSOLE, LOAD_A_LINE_DISCIPLINE] {
        deny(libc::SYS_ioctl, &[(1, Kind::Is, request)]);
    }
    // Having the kernel signal another process when there is something to read.
    for request in OWN_A_SOCKET {
        deny(libc::SYS_ioctl, &[(1, Kind::Is, request)]);
    }
    for command in OWN_A_FILE.into_iter().chain(WATCH_OTHERS) {
        deny(libc::SYS_fcntl, &[(1, Kind::Is, command)]);
    }
    for whose in OF_FILE_SYSTEMS {
        let is_theirs = (1, Kind::Has(WHOSE), whose);
        deny(libc::SYS_ioctl, &[is_theirs, (1, Kind::IsNot, SCAN_PAGES)]);
    }
    opening(&mut deny);
    // As the engine asks for it: for faults of this process's own code.
    let watching = flag(libc::O_CLOEXEC) | USER_MODE_ONLY;
    deny(libc::SYS_userfaultfd, &[(0, Kind::IsNot, watching)]);
    // Times of files by name; those of an open file have none.
    deny(libc::SYS_utimensat, &[(1, Kind::IsNotLong, 0)]);
    sockets(plan, &mut deny);
    rules
}

/// Ways to open a file for which Landlock asks too little: neither to read nor to write it, and,
/// before ABI 3, to read and truncate it.
fn opening(deny: &mut impl FnMut(i64, &[Condition])) {
    let truncates = flag(libc::O_TRUNC);
    #[cfg(target_arch = "x86_64")]
    let calls = [(libc::SYS_openat, 2), (libc::SYS_open, 1)];
    #[cfg(not(target_arch = "x86_64"))]
    let calls = [(libc::SYS_openat, 2)];
    for (call, flags) in calls {
        deny(call, &[(flags, Kind::Has(OPEN_FOR), OPEN_FOR)]);
        deny(call, &[(flags, Kind::Has(OPEN_FOR | truncates), truncates)]);
    }
}

/// Pairs of streams are what threads wake each other with.
fn sockets(plan: &Lockdown, deny: &mut impl FnMut(i64, &[Condition])) {
    // Connections without `connect`, which Landlock does not see: also from a socket that listened.
    let connects = flag(libc::MSG_FASTOPEN);
    for (call, flags) in [(libc::SYS_sendto, 3), (libc::SYS_sendmsg, 2), (libc::SYS_sendmmsg, 3)] {
        deny(call, &[(flags, Kind::Has(connects), connects)]);
    }
    // Other protocols on top of TCP, which the kernel loads modules for.
    let tcp = flag(libc::IPPROTO_TCP);
    let upper = flag(libc::TCP_ULP);
    deny(libc::SYS_setsockopt, &[(1, Kind::Is, tcp), (2, Kind::Is, upper)]);
    deny(libc::SYS_socketpair, &[(0, Kind::IsNot, flag(libc::AF_UNIX))]);
    for kind in [libc::SOCK_DGRAM, libc::SOCK_RAW, libc::SOCK_SEQPACKET] {
        deny(libc::SYS_socketpair, &[(1, Kind::Has(SOCKET_TYPE), flag(kind))]);
    }
    if plan.ports.is_empty() {
        deny(libc::SYS_socket, &[(0, Kind::Has(0), 0)]);
        deny(libc::SYS_connect, &[(0, Kind::Has(0), 0)]);
        return;
    }
    let families = [flag(libc::AF_INET), flag(libc::AF_INET6)];
    deny(libc::SYS_socket, &families.map(|family| (0, Kind::IsNot, family)));
    let others = [libc::SOCK_RAW, libc::SOCK_RDM, libc::SOCK_SEQPACKET, libc::SOCK_DCCP];
    let datagrams = (!plan.resolves_names).then_some(libc::SOCK_DGRAM);
    for kind in others.into_iter().chain([SOCK_PACKET]).chain(datagrams) {
        deny(libc::SYS_socket, &[(1, Kind::Has(SOCKET_TYPE), flag(kind))]);
    }
    // Others, such as multipath TCP, go past Landlock's rules for ports.
    let protocols = [0, flag(libc::IPPROTO_TCP), flag(libc::IPPROTO_UDP)];
    deny(libc::SYS_socket, &protocols.map(|protocol| (2, Kind::IsNot, protocol)));
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

    fn plans() -> Vec<Lockdown> {
        let plans =
            [Lockdown::new(), Lockdown::new().connect(443), Lockdown::new().resolve_names()];
        plans.into_iter().flat_map(|plan| [plan.clone(), plan.end_children()]).collect()
    }

    #[test]
    fn no_call_is_denied_twice() {
        let mut all: Vec<i64> = DENIED.iter().chain(DENIED_HERE).copied().collect();
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        assert!(all.iter().all(|call| *call < i64::from(UNKNOWN)));
        for plan in plans() {
            let denied = |call: &u32| all.contains(&i64::from(*call));
            assert!(!rules(&plan).keys().any(denied), "a rule has no effect");
        }
    }

    /// Runs a filter as the kernel does.
    fn run(program: &[sock_filter], architecture: u32, call: u32, arguments: [u64; 6]) -> u32 {
        let (mut place, mut value) = (0, 0);
        loop {
            let step = &program[place];
            place += 1;
            let argument = |at: u32| arguments[at as usize / 8] >> (at % 8 * 8);
            match step.code {
                LOAD_WORD => {
                    value = match step.k {
                        0 => call,
                        4 => architecture,
                        at => argument(at - 16) as u32,
                    }
                }
                AND => value &= step.k,
                JUMP => place += step.k as usize,
                JUMP_IF_EQUAL if value == step.k => place += usize::from(step.jt),
                JUMP_IF_AT_LEAST if value >= step.k => place += usize::from(step.jt),
                JUMP_IF_EQUAL | JUMP_IF_AT_LEAST => place += usize::from(step.jf),
                RETURN => return step.k,
                code => panic!("{code}"),
            }
        }
    }

    /// What a filter is to do, without a filter.
    fn expected(rules: &Rules, call: u32, arguments: [u64; 6]) -> u32 {
        let is_met = |(argument, kind, value): &Condition| {
            let argument = arguments[usize::from(*argument)];
            match kind {
                Kind::Is => argument as u32 == *value as u32,
                Kind::IsNot => argument as u32 != *value as u32,
                Kind::IsNotLong => argument != *value,
                Kind::Has(mask) => argument as u32 & *mask as u32 == *value as u32,
            }
        };
        let rules = rules.get(&call).map_or(&[][..], Vec::as_slice);
        if HIDE_THEIR_FLAGS.contains(&call) || call >= UNKNOWN {
            ABSENT
        } else if DENIED.iter().chain(DENIED_HERE).any(|denied| *denied == i64::from(call))
            || rules.iter().any(|rule| rule.iter().all(is_met))
        {
            DENIED_CALL
        } else {
            ALLOWED
        }
    }

    #[test]
    fn a_filter_denies_what_the_lists_and_the_rules_name_and_nothing_else() {
        let architecture = ARCHITECTURE.unwrap();
        let high = [UNKNOWN, UNKNOWN + 1, 0x4000_003b, u32::MAX];
        for plan in plans() {
            let rules = rules(&plan);
            let program = program(architecture, &rules).unwrap();
            for call in (0..UNKNOWN).chain(high) {
                let check = |arguments| {
                    let found = run(&program, architecture, call, arguments);
                    assert_eq!(found, expected(&rules, call, arguments), "{call} {arguments:x?}");
                };
                check([0; 6]);
                let of_call = rules.get(&call).into_iter().flatten().flatten();
                let mut used: Vec<usize> =
                    of_call.clone().map(|(one, ..)| usize::from(*one)).collect();
                used.dedup();
                // Every value that a rule names, those beside it, and what only the low word has
                // of it.
                let mut values: Vec<u64> = vec![0, 1, u64::MAX, 1 << 32];
                for (_, kind, value) in of_call {
                    let mask = if let Kind::Has(mask) = kind { *mask } else { 0 };
                    for value in [*value, *value | !mask, !*value & mask] {
                        values.extend([value, value.wrapping_add(1), value.wrapping_sub(1)]);
                        values.extend([value | 1 << 32, value | 1 << 63]);
                    }
                }
                values.sort_unstable();
                values.dedup();
                for (one, other) in used.iter().zip(used.iter().cycle().skip(1)) {
                    for first in &values {
                        for second in &values {
                            let mut arguments = [0; 6];
                            arguments[*one] = *first;
                            arguments[*other] = *second;
                            check(arguments);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn calls_of_another_architecture_end_the_process() {
        let program = program(ARCHITECTURE.unwrap(), &rules(&Lockdown::new())).unwrap();
        for call in [0, 1, UNKNOWN] {
            // That of 32-bit x86.
            let result = run(&program, 0x4000_0003, call, [0; 6]);
            assert_eq!(result, libc::SECCOMP_RET_KILL_PROCESS);
        }
    }
}
