//! What a process that is locked down can still do: these succeed both ways.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsRawFd;

use belljar_lockdown::Lockdown;

use super::Attack;
use super::world::{done, told};

pub(crate) const CHECKS: &[(&str, Attack)] = &[
    ("kept_read_what_was_named", |world, lock| {
        lock();
        told(fs::read_dir(world.path("readable")))?;
        told(fs::read(world.path("readable/text"))).map(drop)
    }),
    ("kept_a_pipe_that_has_a_name_in_proc", |_, lock| {
        let (reads, mut writes) = told(std::io::pipe())?;
        told(writes.write_all(b"x"))?;
        drop(writes);
        let path = format!("/proc/self/fd/{}", reads.as_raw_fd());
        // Such a path must not cost the other rules.
        let status = Lockdown::new().read(&path).apply();
        lock();
        let by_path = told(fs::read(&path))?;
        if by_path != b"x" {
            return Err(format!("{by_path:?}"));
        }
        if status.is_whole() {
            Ok(())
        } else {
            Err(format!("{status}: {:?}", status.failures()))
        }
    }),
    ("kept_write_what_was_named", |world, lock| {
        lock();
        let at = |name: &str| world.path("writable").join(name);
        told(fs::create_dir_all(at("a/b")))?;
        told(fs::write(at("a/b/x"), "text"))?;
        told(fs::rename(at("a/b/x"), at("a/y")))?;
        told(fs::hard_link(at("a/y"), at("a/z")))?;
        told(std::os::unix::fs::symlink("y", at("a/link")))?;
        told(File::options().write(true).truncate(true).open(at("a/link")))?;
        told(fs::remove_dir_all(at("a")))
    }),
    ("kept_a_file_without_a_name", |world, lock| {
        lock();
        let mut file = told(tempfile::tempfile_in(world.path("writable")))?;
        told(file.write_all(b"text"))?;
        told(file.rewind())?;
        told(file.read_to_end(&mut Vec::new())).map(drop)
    }),
    ("kept_what_is_open", |world, lock| {
        let mut file =
            told(File::options().append(true).read(true).open(world.path("home/secret")))?;
        lock();
        told(file.write_all(b"!"))?;
        told(file.set_len(1)).map(drop)
    }),
    ("kept_start_threads", |_, lock| {
        lock();
        let threads: Vec<_> = (0..4).map(|n| std::thread::spawn(move || n)).collect();
        let sum: i32 = threads.into_iter().filter_map(|thread| thread.join().ok()).sum();
        if sum == 6 {
            Ok(())
        } else {
            Err(format!("{sum}"))
        }
    }),
    ("kept_answer_on_a_socket", |_, lock| {
        let listener = told(TcpListener::bind("127.0.0.1:0"))?;
        let address = told(listener.local_addr())?;
        let mut asks = told(TcpStream::connect(address))?;
        lock();
        let (mut stream, _) = told(listener.accept())?;
        told(stream.write_all(b"x"))?;
        drop(stream);
        told(asks.read_to_end(&mut Vec::new())).map(drop)
    }),
    ("kept_connect_to_the_port_that_was_named", |world, lock| {
        lock();
        told(TcpStream::connect(("127.0.0.1", world.allowed_port))).map(drop)
    }),
    ("kept_wake_by_pairs", |_, lock| {
        lock();
        told(std::os::unix::net::UnixStream::pair()).map(drop)
    }),
    ("kept_memory_that_runs", |_, lock| {
        lock();
        let (size, flags) = (4096, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a mapping of its own, wherever the kernel has room.
        let place = unsafe {
            libc::mmap(std::ptr::null_mut(), size, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0)
        };
        if place == libc::MAP_FAILED {
            return Err(std::io::Error::last_os_error().to_string());
        }
        // SAFETY: it is the mapping that was just made.
        done(unsafe { libc::mprotect(place, size, libc::PROT_READ | libc::PROT_EXEC) }.into())
            .map(drop)
    }),
    ("kept_watch_ones_own_memory", |_, lock| {
        lock();
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::syscall(libc::SYS_userfaultfd, libc::O_CLOEXEC | 1) }).map(drop)
    }),
    ("kept_signal_oneself", |_, lock| {
        lock();
        // SAFETY: signal 0 only checks the target.
        done(unsafe { libc::kill(std::process::id().cast_signed(), 0) }.into()).map(drop)
    }),
    ("kept_read_about_oneself", |_, lock| {
        lock();
        told(fs::read_to_string("/proc/self/status"))?;
        told(fs::read_dir("/proc/self/fd"))?;
        told(File::open("/dev/urandom"))?;
        told(File::options().write(true).open("/dev/null")).map(drop)
    }),
    ("kept_lower_ones_own_priority", |_, lock| {
        lock();
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 10) }.into()).map(drop)
    }),
    // More can be taken later, from all threads again.
    ("kept_lock_again", |world, lock| {
        let (go, went) = std::sync::mpsc::channel();
        let text = world.path("readable/text");
        let other = std::thread::spawn(move || {
            let _ = went.recv();
            fs::read(text).is_ok()
        });
        lock();
        let status = Lockdown::new().apply();
        let _ = go.send(());
        let reads = other.join().map_err(|_| "it panicked".to_owned())?;
        match (status.is_whole(), reads) {
            (true, false) => Ok(()),
            (_, reads) => Err(format!("{status}, {:?}, reads: {reads}", status.failures())),
        }
    }),
];
