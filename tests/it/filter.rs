//! System call filters, for tests of the calls that this process makes.
#![expect(unsafe_code, reason = "a filter of system calls is installed")]

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};

use libc::{c_int, c_long, c_void, siginfo_t, ucontext_t};

/// A system call to filter.
#[derive(Clone, Copy)]
pub struct Call {
    number: c_long,
    /// The argument to test, its bits, and whether the call is filtered if any of them is set or if
    /// none is.
    flags: Option<(u32, c_int, bool)>,
}

impl Call {
    pub const fn always(number: c_long) -> Self {
        Self {
            number,
            flags: None,
        }
    }

    /// Filtered if the argument has one of these bits.
    pub const fn with(number: c_long, argument: u32, bits: c_int) -> Self {
        Self {
            number,
            flags: Some((argument, bits, true)),
        }
    }

    /// Filtered unless the argument has one of these bits.
    pub const fn without(number: c_long, argument: u32, bits: c_int) -> Self {
        Self {
            number,
            flags: Some((argument, bits, false)),
        }
    }

    fn steps(&self, action: u32) -> Vec<libc::sock_filter> {
        const LOAD: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
        const EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
        const HAS: u16 = (libc::BPF_JMP | libc::BPF_JSET | libc::BPF_K) as u16;
        const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
        /// Offset of the arguments, eight bytes each.
        const ARGUMENTS: u32 = 16;
        let step = |code, k: u32, jt, jf| libc::sock_filter { code, jt, jf, k };
        let number = u32::try_from(self.number).unwrap();
        // The first word is the number of the call.
        let load = step(LOAD, 0, 0, 0);
        let Some((argument, bits, when_set)) = self.flags else {
            return vec![load, step(EQUAL, number, 0, 1), step(RETURN, action, 0, 0)];
        };
        let (has, has_not) = if when_set { (0, 1) } else { (1, 0) };
        vec![
            load,
            step(EQUAL, number, 0, 3),
            step(LOAD, ARGUMENTS + 8 * argument, 0, 0),
            step(HAS, bits.cast_unsigned(), has, has_not),
            step(RETURN, action, 0, 0),
        ]
    }
}

/// Makes the kernel do `action` when any thread of this process makes one of these calls,
/// permanently.
fn install(calls: &[Call], action: u32) {
    let mut steps: Vec<_> = calls.iter().flat_map(|call| call.steps(action)).collect();
    steps.push(libc::sock_filter {
        code: (libc::BPF_RET | libc::BPF_K) as u16,
        jt: 0,
        jf: 0,
        k: libc::SECCOMP_RET_ALLOW,
    });
    let program = libc::sock_fprog {
        len: u16::try_from(steps.len()).unwrap(),
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: the arguments are valid for these calls, and the program is valid and borrowed during
    // the call. The kernel checks and copies it.
    unsafe {
        assert_eq!(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
        let (set, all) = (libc::SECCOMP_SET_MODE_FILTER, libc::SECCOMP_FILTER_FLAG_TSYNC);
        assert_eq!(libc::syscall(libc::SYS_seccomp, set, all, &raw const program), 0);
    }
}

/// Makes these calls fail as on a read-only file system.
pub fn refuse(calls: &[Call]) {
    install(calls, libc::SECCOMP_RET_ERRNO | libc::EROFS.cast_unsigned());
}

static NOTED: AtomicUsize = AtomicUsize::new(0);
static LAST: AtomicI64 = AtomicI64::new(0);

/// The number of calls recorded since the last query, and the number of the latest.
pub fn noted() -> (usize, i64) {
    (NOTED.swap(0, Ordering::Relaxed), LAST.load(Ordering::Relaxed))
}

/// Records these calls. They fail with a permission error.
pub fn note(calls: &[Call]) {
    extern "C" fn noted(_: c_int, _: *mut siginfo_t, context: *mut c_void) {
        // SAFETY: the kernel gives the handler exclusive access to the thread's registers.
        let machine = unsafe { &mut (*context.cast::<ucontext_t>()).uc_mcontext };
        // Unchanged registers, except that the result replaces the call's number.
        #[cfg(target_arch = "x86_64")]
        let (number, answer) = {
            let register = &mut machine.gregs[libc::REG_RAX as usize];
            (*register, register)
        };
        #[cfg(target_arch = "aarch64")]
        let (number, answer) = (machine.regs[8].cast_signed(), &mut machine.regs[0]);
        LAST.store(number, Ordering::Relaxed);
        NOTED.fetch_add(1, Ordering::Relaxed);
        *answer = (-i64::from(libc::EPERM)) as _;
    }
    // SAFETY: a handler of that signal, which only touches numbers, is all zeros except its address
    // and a flag.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = noted as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(libc::SIGSYS, &raw const action, std::ptr::null_mut()), 0);
    }
    install(calls, libc::SECCOMP_RET_TRAP);
}

/// System calls that change files by path.
pub const CHANGES: &[Call] = &[
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_creat),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_mkdir),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_rmdir),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_unlink),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_rename),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_link),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_symlink),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_mknod),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_chmod),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_chown),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_lchown),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_utime),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_utimes),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_futimesat),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_renameat),
    Call::always(libc::SYS_openat2),
    Call::always(libc::SYS_mkdirat),
    Call::always(libc::SYS_unlinkat),
    Call::always(libc::SYS_renameat2),
    Call::always(libc::SYS_linkat),
    Call::always(libc::SYS_symlinkat),
    Call::always(libc::SYS_mknodat),
    Call::always(libc::SYS_fchmodat),
    Call::always(FCHMODAT2),
    Call::always(libc::SYS_fchownat),
    Call::always(libc::SYS_utimensat),
    Call::always(libc::SYS_truncate),
    Call::always(libc::SYS_setxattr),
    Call::always(libc::SYS_lsetxattr),
    Call::always(libc::SYS_removexattr),
    Call::always(libc::SYS_lremovexattr),
    Call::always(SETXATTRAT),
    Call::always(REMOVEXATTRAT),
];

/// Other calls with a path: to open, stat, execute, mount or watch files.
pub const LOOKS: &[Call] = &[
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_open),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_stat),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_lstat),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_access),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_readlink),
    #[cfg(target_arch = "x86_64")]
    Call::always(libc::SYS_uselib),
    Call::always(libc::SYS_openat),
    // For a descriptor, they are called with an empty path and this flag.
    Call::without(libc::SYS_newfstatat, 3, libc::AT_EMPTY_PATH),
    Call::without(libc::SYS_statx, 2, libc::AT_EMPTY_PATH),
    Call::always(libc::SYS_statfs),
    Call::always(libc::SYS_faccessat),
    Call::always(libc::SYS_faccessat2),
    Call::always(libc::SYS_readlinkat),
    Call::always(libc::SYS_getxattr),
    Call::always(libc::SYS_lgetxattr),
    Call::always(libc::SYS_listxattr),
    Call::always(libc::SYS_llistxattr),
    Call::always(GETXATTRAT),
    Call::always(LISTXATTRAT),
    Call::always(libc::SYS_name_to_handle_at),
    Call::always(libc::SYS_open_by_handle_at),
    Call::always(libc::SYS_inotify_add_watch),
    Call::always(libc::SYS_fanotify_mark),
    Call::always(libc::SYS_execve),
    Call::always(libc::SYS_execveat),
    Call::always(libc::SYS_chdir),
    Call::always(libc::SYS_chroot),
    Call::always(libc::SYS_pivot_root),
    Call::always(libc::SYS_mount),
    Call::always(libc::SYS_umount2),
    Call::always(libc::SYS_open_tree),
    Call::always(libc::SYS_move_mount),
    Call::always(libc::SYS_fspick),
    Call::always(libc::SYS_mount_setattr),
    Call::always(libc::SYS_quotactl),
    Call::always(libc::SYS_acct),
    Call::always(libc::SYS_swapon),
    Call::always(libc::SYS_swapoff),
];

// New in Linux 6.6 and 6.13, with the same numbers on all architectures.
const FCHMODAT2: c_long = 452;
const SETXATTRAT: c_long = 463;
const GETXATTRAT: c_long = 464;
const LISTXATTRAT: c_long = 465;
const REMOVEXATTRAT: c_long = 466;
