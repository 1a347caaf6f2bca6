//! Parts of the kernel that a process has no use for.

use std::fs::File;
use std::os::fd::AsRawFd;

use super::Attack;
use super::world::{c, done, reached, told};

pub(crate) const ATTACKS: &[(&str, Attack)] = &[
    ("a_mount_namespace", |_, lock| {
        lock();
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::unshare(libc::CLONE_NEWNS) }.into()).map(drop)
    }),
    ("a_network_namespace", |_, lock| {
        lock();
        // SAFETY: as above.
        done(unsafe { libc::unshare(libc::CLONE_NEWNET) }.into()).map(drop)
    }),
    ("a_process_in_a_user_namespace", |_, lock| {
        lock();
        let flags = libc::CLONE_NEWUSER | libc::SIGCHLD;
        // SAFETY: without a stack the child goes on with a copy of this one.
        let child = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
        if child == 0 {
            // SAFETY: it runs nothing of this process's any more.
            unsafe { libc::_exit(0) };
        }
        done(child).map(drop)
    }),
    ("the_victims_namespaces", |world, lock| {
        let namespace = told(File::open(format!("/proc/{}/ns/uts", world.victim)))?;
        lock();
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::setns(namespace.as_raw_fd(), 0) }.into()).map(drop)
    }),
    ("another_root", |world, lock| {
        lock();
        told(std::os::unix::fs::chroot(world.path("home")))
    }),
    ("mount", |world, lock| {
        // Visible to this process only.
        // SAFETY: this call takes numbers only.
        let own = unsafe { libc::unshare(libc::CLONE_NEWNS) };
        done(own.into())?;
        lock();
        let (kind, place) = (c("tmpfs"), c(world.path("writable")));
        // SAFETY: the strings end in zero, and no data is given.
        done(
            unsafe {
                let (kind, nothing) = (kind.as_ptr(), std::ptr::null());
                libc::mount(kind, place.as_ptr(), kind, libc::MS_NOSUID, nothing)
            }
            .into(),
        )
        .map(drop)
    }),
    ("open_a_file_system", |_, lock| {
        lock();
        let kind = c("tmpfs");
        // SAFETY: the name ends in zero.
        done(unsafe { libc::syscall(libc::SYS_fsopen, kind.as_ptr(), 0) }).map(drop)
    }),
    ("take_a_tree", |world, lock| {
        lock();
        let place = c(world.path("home"));
        // `OPEN_TREE_CLONE`
        // SAFETY: the path ends in zero.
        done(unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, place.as_ptr(), 1) })
            .map(drop)
    }),
    ("io_uring", |_, lock| {
        lock();
        let mut parameters = [0_u8; 120];
        // SAFETY: the parameters are as long as the kernel's.
        done(unsafe { libc::syscall(libc::SYS_io_uring_setup, 1, parameters.as_mut_ptr()) })
            .map(drop)
    }),
    ("asynchronous_io", |_, lock| {
        lock();
        let mut context = 0_u64;
        // SAFETY: the kernel writes a number.
        done(unsafe { libc::syscall(libc::SYS_io_setup, 1, &raw mut context) }).map(drop)
    }),
    ("bpf", |_, lock| {
        lock();
        // An array of one: kind, size of keys, size of values, entries.
        let map = [2_u32, 4, 4, 1, 0, 0, 0, 0, 0, 0, 0, 0];
        // SAFETY: the attributes are as long as is said. 0 is `BPF_MAP_CREATE`.
        done(unsafe { libc::syscall(libc::SYS_bpf, 0, map.as_ptr(), 48) }).map(drop)
    }),
    ("count_events", |_, lock| {
        lock();
        let mut event = [0_u64; 16];
        // `PERF_TYPE_SOFTWARE`, and the size of all.
        event[0] = 1 | 128 << 32;
        // SAFETY: the attributes are as long as they say.
        done(unsafe { libc::syscall(libc::SYS_perf_event_open, event.as_ptr(), 0, -1, -1, 0) })
            .map(drop)
    }),
    ("add_a_key", |_, lock| {
        lock();
        let (kind, name) = (c("user"), c("belljar"));
        // `KEY_SPEC_PROCESS_KEYRING`
        // SAFETY: the strings end in zero, and the payload is as long as is said.
        done(unsafe {
            let (kind, name) = (kind.as_ptr(), name.as_ptr());
            libc::syscall(libc::SYS_add_key, kind, name, name, 1, -2)
        })
        .map(drop)
    }),
    ("look_at_keys", |_, lock| {
        lock();
        // `KEYCTL_GET_KEYRING_ID` of the session, made if missing.
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::syscall(libc::SYS_keyctl, 0, -3, 1) }).map(drop)
    }),
    ("ask_for_a_key", |_, lock| {
        lock();
        let (kind, name) = (c("user"), c("belljar-nobodys"));
        // SAFETY: the strings end in zero.
        reached(unsafe {
            let nothing = std::ptr::null::<u8>();
            libc::syscall(libc::SYS_request_key, kind.as_ptr(), name.as_ptr(), nothing, 0)
        })
    }),
    ("handle_the_kernels_faults", |_, lock| {
        lock();
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC) }).map(drop)
    }),
    ("load_a_module", |_, lock| {
        lock();
        let options = c("");
        // SAFETY: the module is as long as is said, and none.
        reached(unsafe {
            libc::syscall(libc::SYS_init_module, options.as_ptr(), 1, options.as_ptr())
        })
    }),
    ("load_a_module_from_a_file", |_, lock| {
        lock();
        let options = c("");
        // SAFETY: the options end in zero.
        reached(unsafe { libc::syscall(libc::SYS_finit_module, -1, options.as_ptr(), 0) })
    }),
    ("remove_a_module", |_, lock| {
        lock();
        let name = c("belljar_is_none");
        // SAFETY: the name ends in zero.
        reached(unsafe { libc::syscall(libc::SYS_delete_module, name.as_ptr(), 0) })
    }),
    ("another_kernel", |_, lock| {
        lock();
        // SAFETY: the kernel refuses these flags.
        reached(unsafe { libc::syscall(libc::SYS_kexec_load, 0, 0, 0, u64::MAX) })
    }),
    ("restart", |_, lock| {
        lock();
        // SAFETY: the kernel refuses these numbers, which are not its magic ones.
        reached(unsafe { libc::syscall(libc::SYS_reboot, 1, 2, 3, 0) })
    }),
    ("swap", |_, lock| {
        lock();
        let path = c("/nowhere");
        // SAFETY: the path ends in zero.
        reached(unsafe { libc::syscall(libc::SYS_swapoff, path.as_ptr()) })
    }),
    ("account", |_, lock| {
        lock();
        let path = c("/nowhere");
        // SAFETY: the path ends in zero.
        reached(unsafe { libc::syscall(libc::SYS_acct, path.as_ptr()) })
    }),
    ("set_the_clock", |_, lock| {
        lock();
        let never = libc::timespec {
            tv_sec: -1,
            tv_nsec: -1,
        };
        // SAFETY: the time is read, and refused.
        reached(unsafe { libc::syscall(libc::SYS_clock_settime, 0, &raw const never) })
    }),
    ("rename_the_machine", |_, lock| {
        lock();
        let mut name = [0_u8; 65];
        // SAFETY: the name is written as it was read.
        done(
            unsafe {
                libc::gethostname(name.as_mut_ptr().cast(), 64);
                let length = libc::strlen(name.as_ptr().cast());
                libc::sethostname(name.as_ptr().cast(), length)
            }
            .into(),
        )
        .map(drop)
    }),
    ("become_another_user", |_, lock| {
        lock();
        // SAFETY: as a system call of this thread's alone, which ends soon.
        done(unsafe { libc::syscall(libc::SYS_setresuid, 65_534, 65_534, 65_534) }).map(drop)
    }),
    ("leave_all_groups", |_, lock| {
        lock();
        // SAFETY: an empty list is read nowhere.
        done(unsafe { libc::syscall(libc::SYS_setgroups, 0, 0) }).map(drop)
    }),
    ("another_personality", |_, lock| {
        lock();
        // `ADDR_NO_RANDOMIZE`
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::syscall(libc::SYS_personality, 0x0004_0000) }).map(drop)
    }),
    ("be_dumpable_again", |_, lock| {
        lock();
        let (one, zero): (libc::c_ulong, libc::c_ulong) = (1, 0);
        // SAFETY: this option takes numbers only.
        done(unsafe { libc::prctl(libc::PR_SET_DUMPABLE, one, zero, zero, zero) }.into()).map(drop)
    }),
    ("shared_memory", |_, lock| {
        lock();
        let flags = libc::IPC_CREAT | 0o600;
        // SAFETY: this call takes numbers only.
        let id = done(unsafe { libc::shmget(libc::IPC_PRIVATE, 4096, flags) }.into())?;
        // SAFETY: it is this process's own.
        done(unsafe { libc::shmctl(id as i32, libc::IPC_RMID, std::ptr::null_mut()) }.into())
            .map(drop)
    }),
    ("a_queue_of_messages", |_, lock| {
        lock();
        let flags = libc::IPC_CREAT | 0o600;
        // SAFETY: this call takes numbers only.
        let id = done(unsafe { libc::msgget(libc::IPC_PRIVATE, flags) }.into())?;
        // SAFETY: it is this process's own.
        done(unsafe { libc::msgctl(id as i32, libc::IPC_RMID, std::ptr::null_mut()) }.into())
            .map(drop)
    }),
    ("a_named_queue_of_messages", |world, lock| {
        lock();
        let name = c(format!("belljar-{}", world.victim));
        let (flags, nothing) = (libc::O_CREAT | libc::O_RDWR, std::ptr::null::<u8>());
        // SAFETY: the name ends in zero; without attributes they are the usual ones.
        done(unsafe { libc::syscall(libc::SYS_mq_open, name.as_ptr(), flags, 0o600, nothing) })?;
        // SAFETY: as above.
        done(unsafe { libc::syscall(libc::SYS_mq_unlink, name.as_ptr()) }).map(drop)
    }),
    ("watch_files", |world, lock| {
        lock();
        // SAFETY: this call takes numbers only.
        let fd = done(unsafe { libc::inotify_init1(0) }.into())?;
        let path = c(world.path("home"));
        // SAFETY: the path ends in zero.
        done(unsafe { libc::inotify_add_watch(fd as i32, path.as_ptr(), libc::IN_OPEN) }.into())
            .map(drop)
    }),
    ("watch_all_files", |_, lock| {
        lock();
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::syscall(libc::SYS_fanotify_init, 0, 0) }).map(drop)
    }),
    ("type_for_the_user", |_, lock| {
        lock();
        let letter = b'x';
        // SAFETY: the kernel reads one byte, and finds no terminal.
        reached(unsafe { libc::ioctl(0, libc::TIOCSTI, &raw const letter) }.into())
    }),
    ("read_the_kernels_log", |_, lock| {
        lock();
        // `SYSLOG_ACTION_SIZE_BUFFER`
        // SAFETY: nothing is written.
        done(unsafe { libc::syscall(libc::SYS_syslog, 10, 0, 0) }).map(drop)
    }),
    #[cfg(target_arch = "x86_64")]
    ("the_ports_of_the_machine", |_, lock| {
        lock();
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::syscall(libc::SYS_iopl, 0) }).map(drop)
    }),
    // Not the number that a filter for this architecture knows.
    #[cfg(target_arch = "x86_64")]
    ("calls_of_32_bits", |_, lock| {
        lock();
        let process: i32;
        // SAFETY: call 20 of 32 bits is `getpid`, which touches no memory.
        unsafe { std::arch::asm!("int 0x80", inlateout("eax") 20 => process, clobber_abi("C")) };
        done(process.into()).map(drop)
    }),
];
