//! Programs, and other processes.

use std::io::Write;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::process::Command;

use super::Attack;
use super::world::{SECRET, World, c, done, told};

pub(crate) const ATTACKS: &[(&str, Attack)] = &[
    ("start_a_program", |_, lock| {
        lock();
        told(Command::new("/bin/true").status()).map(drop)
    }),
    ("become_a_program", |_, lock| {
        lock();
        let path = c("/bin/true");
        let arguments = [path.as_ptr(), std::ptr::null()];
        // SAFETY: path and arguments end in zero. The program ends as an attack does that succeeds.
        done(unsafe { libc::execv(path.as_ptr(), arguments.as_ptr()) }.into()).map(drop)
    }),
    ("become_a_program_that_is_in_memory", |_, lock| {
        let program = told(std::fs::read("/bin/true"))?;
        let name = c("program");
        // SAFETY: the name ends in zero.
        let fd = done(unsafe { libc::memfd_create(name.as_ptr(), 0) }.into())?;
        // SAFETY: it was just opened, and has no other owner.
        let mut file = std::fs::File::from(unsafe { OwnedFd::from_raw_fd(fd as i32) });
        told(file.write_all(&program))?;
        lock();
        let (empty, arguments) = (c(""), [name.as_ptr(), std::ptr::null()]);
        let nothing = std::ptr::null::<*const libc::c_char>();
        // SAFETY: all strings end in zero, and lists in a null pointer.
        done(unsafe {
            let (fd, flags) = (file.as_raw_fd(), libc::AT_EMPTY_PATH);
            let arguments = arguments.as_ptr();
            libc::syscall(libc::SYS_execveat, fd, empty.as_ptr(), arguments, nothing, flags)
        })
        .map(drop)
    }),
    ("fork", |_, lock| {
        lock();
        child(|| {
            // SAFETY: the child calls nothing but `_exit`.
            unsafe { libc::fork() }.into()
        })
    }),
    ("clone_a_process", |_, lock| {
        lock();
        child(|| {
            // SAFETY: without a stack the child goes on with a copy of this one.
            unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) }
        })
    }),
    ("clone3_a_process", |_, lock| {
        lock();
        child(|| {
            let mut arguments = [0_u64; 8];
            arguments[4] = libc::SIGCHLD as u64;
            // SAFETY: the arguments are as long as is said; without a stack the child goes on with
            // a copy of this one.
            unsafe { libc::syscall(libc::SYS_clone3, arguments.as_mut_ptr(), 64_usize) }
        })
    }),
    ("trace_the_victim", |world, lock| {
        lock();
        let nothing = std::ptr::null_mut::<libc::c_void>();
        // SAFETY: nothing is read or written.
        done(unsafe { libc::ptrace(libc::PTRACE_SEIZE, world.victim, nothing, nothing) }).map(drop)
    }),
    ("read_the_victims_memory", |world, lock| {
        lock();
        let mut read = [0_u8; 16];
        let here = area(read.as_mut_ptr().addr());
        let there = area(world.address);
        // SAFETY: this process's part is as long as is said, and the other is checked by the
        // kernel.
        let got = done(unsafe {
            libc::process_vm_readv(world.victim, &raw const here, 1, &raw const there, 1, 0) as i64
        })?;
        if got == 16 && &read == SECRET {
            Ok(())
        } else {
            Err("read something else".into())
        }
    }),
    ("write_the_victims_memory", |world, lock| {
        lock();
        let mut text = *b"the attacker's!!";
        let (here, there) = (area(text.as_mut_ptr().addr()), area(world.address));
        // SAFETY: as above.
        done(unsafe {
            libc::process_vm_writev(world.victim, &raw const here, 1, &raw const there, 1, 0) as i64
        })
        .map(drop)
    }),
    ("open_the_victims_memory", |world, lock| {
        lock();
        told(std::fs::File::open(format!("/proc/{}/mem", world.victim))).map(drop)
    }),
    ("kill_the_victim", |world, lock| {
        lock();
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::kill(world.victim, libc::SIGKILL) }.into()).map(drop)
    }),
    ("kill_everybody", |_, lock| {
        lock();
        // SAFETY: signal 0 only checks the target.
        done(unsafe { libc::kill(-1, 0) }.into()).map(drop)
    }),
    ("kill_the_parent", |_, lock| {
        lock();
        // SAFETY: signal 0 only checks the target.
        done(unsafe { libc::kill(libc::getppid(), 0) }.into()).map(drop)
    }),
    ("kill_a_thread_of_the_victim", |world, lock| {
        lock();
        let (victim, signal) = (world.victim, libc::SIGKILL);
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::syscall(libc::SYS_tgkill, victim, victim, signal) }).map(drop)
    }),
    ("kill_any_thread_of_that_number", |world, lock| {
        lock();
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::syscall(libc::SYS_tkill, world.victim, libc::SIGKILL) }).map(drop)
    }),
    ("queue_a_signal", |world, lock| {
        lock();
        let value = libc::sigval {
            sival_ptr: std::ptr::null_mut(),
        };
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::sigqueue(world.victim, libc::SIGKILL, value) }.into()).map(drop)
    }),
    ("signal_by_a_descriptor", |world, lock| {
        let victim = handle_of(world)?;
        lock();
        let nothing = std::ptr::null::<libc::c_void>();
        // SAFETY: without information the kernel makes its own.
        done(unsafe {
            let (call, fd) = (libc::SYS_pidfd_send_signal, victim.as_raw_fd());
            libc::syscall(call, fd, libc::SIGKILL, nothing, 0)
        })
        .map(drop)
    }),
    ("open_a_process", |world, lock| {
        lock();
        handle_of(world).map(drop)
    }),
    ("take_a_descriptor_of_the_victim", |world, lock| {
        let victim = handle_of(world)?;
        lock();
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::syscall(libc::SYS_pidfd_getfd, victim.as_raw_fd(), 0, 0) }).map(drop)
    }),
    ("have_the_kernel_signal_the_victim", |world, lock| {
        let (one, other) = told(std::os::unix::net::UnixStream::pair())?;
        lock();
        // SAFETY: this call takes numbers only.
        unsafe { libc::fcntl(one.as_raw_fd(), libc::F_SETOWN, world.victim) };
        let asks = libc::O_ASYNC | libc::O_NONBLOCK;
        // SAFETY: as above.
        done(unsafe { libc::fcntl(one.as_raw_fd(), libc::F_SETFL, asks) }.into())?;
        told((&other).write_all(b"x"))?;
        // Its default action ends a process.
        for _ in 0..200 {
            if is_gone(world.victim) {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        Err("the victim is alive".into())
    }),
    ("name_the_victim_as_a_files_owner", |world, lock| {
        let (one, _other) = told(std::os::unix::net::UnixStream::pair())?;
        lock();
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::fcntl(one.as_raw_fd(), libc::F_SETOWN, world.victim) }.into()).map(drop)
    }),
    ("name_the_victim_as_a_sockets_owner", |world, lock| {
        const FIOSETOWN: libc::Ioctl = 0x8901;
        let (one, _other) = told(std::os::unix::net::UnixStream::pair())?;
        lock();
        // SAFETY: the number is read, and nothing is written.
        done(unsafe { libc::ioctl(one.as_raw_fd(), FIOSETOWN, &raw const world.victim) }.into())
            .map(drop)
    }),
    ("leave_the_session", |_, lock| {
        lock();
        // SAFETY: this call takes nothing.
        done(unsafe { libc::setsid() }.into()).map(drop)
    }),
    ("leave_the_process_group", |_, lock| {
        lock();
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::setpgid(0, 0) }.into()).map(drop)
    }),
    ("outlive_the_parent", |_, lock| {
        lock();
        let zero: libc::c_ulong = 0;
        // SAFETY: this option takes numbers only.
        done(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, zero, zero, zero, zero) }.into())
            .map(drop)
    }),
    ("keep_the_rights_of_root", |_, lock| {
        lock();
        rights()
    }),
    ("keep_the_rights_of_root_in_another_thread", |_, lock| {
        let (go, went) = std::sync::mpsc::channel();
        let other = std::thread::spawn(move || {
            let _ = went.recv();
            rights()
        });
        lock();
        let _ = go.send(());
        other.join().map_err(|_| "it panicked".to_owned())?
    }),
    ("compare_with_the_victim", |world, lock| {
        lock();
        let (own, victim) = (std::process::id(), world.victim);
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::syscall(libc::SYS_kcmp, own, victim, 1, 0, 0) }).map(drop)
    }),
    ("slow_the_victim", |world, lock| {
        lock();
        let (which, victim) = (libc::PRIO_PROCESS, world.victim.cast_unsigned());
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::setpriority(which, victim, 10) }.into()).map(drop)
    }),
    ("limit_the_victim", |world, lock| {
        lock();
        let none = libc::rlimit64 {
            rlim_cur: 3,
            rlim_max: 3,
        };
        let (victim, which) = (world.victim, libc::RLIMIT_NOFILE);
        // SAFETY: the limits are read, and nothing is written.
        done(unsafe {
            let nothing = std::ptr::null_mut::<libc::rlimit64>();
            libc::syscall(libc::SYS_prlimit64, victim, which, &raw const none, nothing)
        })
        .map(drop)
    }),
    ("move_the_victim_to_another_processor", |world, lock| {
        lock();
        let processors = [u64::MAX; 16];
        // SAFETY: the set is as long as is said.
        done(unsafe {
            libc::syscall(libc::SYS_sched_setaffinity, world.victim, 128, processors.as_ptr())
        })
        .map(drop)
    }),
];

/// Whether this thread may do what only root may, beyond using any file.
fn rights() -> Result<(), String> {
    let status = told(std::fs::read_to_string("/proc/thread-self/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    match set.ok_or("no line")? & !(1 << 1 | 1 << 2) {
        0 => Err("it has none".to_owned()),
        _ => Ok(()),
    }
}

/// A descriptor of the victim.
fn handle_of(world: &World) -> Result<OwnedFd, String> {
    // SAFETY: this call takes numbers only.
    let fd = done(unsafe { libc::syscall(libc::SYS_pidfd_open, world.victim, 0) })?;
    // SAFETY: it was just opened, and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

/// Whether a process has ended: a process that was not waited for is still listed.
fn is_gone(process: i32) -> bool {
    let mut state = libc::pollfd {
        fd: -1,
        events: libc::POLLIN,
        revents: 0,
    };
    // SAFETY: this call takes numbers only.
    state.fd = unsafe { libc::syscall(libc::SYS_pidfd_open, process, 0) as i32 };
    // SAFETY: one descriptor is looked at.
    state.fd >= 0 && unsafe { libc::poll(&raw mut state, 1, 0) } == 1
}

fn area(address: usize) -> libc::iovec {
    libc::iovec {
        iov_base: std::ptr::without_provenance_mut(address),
        iov_len: 16,
    }
}

/// Waits for a child that is to end at once.
fn child(start: impl FnOnce() -> i64) -> Result<(), String> {
    let child = start();
    if child == 0 {
        // SAFETY: it runs nothing of this process's any more.
        unsafe { libc::_exit(0) };
    }
    done(child)?;
    // SAFETY: no status is wanted.
    done(unsafe { libc::waitpid(child as i32, std::ptr::null_mut(), 0) }.into()).map(drop)
}
