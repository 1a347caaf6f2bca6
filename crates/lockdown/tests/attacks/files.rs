//! Files that were not named.

use std::fs::{self, File};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;

use super::Attack;
use super::world::{SECRET, World, c, done, told};

pub(crate) const ATTACKS: &[(&str, Attack)] = &[
    ("read_a_secret", |world, lock| {
        lock();
        secret_at(&world.path("home/secret"))
    }),
    ("read_by_openat2", |world, lock| {
        lock();
        let (path, how) = (c(world.path("home/secret")), [0_u64; 3]);
        // SAFETY: the path ends in zero, and `how` is as long as is said.
        done(unsafe {
            libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path.as_ptr(), how.as_ptr(), 24_usize)
        })
        .map(drop)
    }),
    ("list_a_directory", |world, lock| {
        lock();
        told(fs::read_dir(world.path("home"))).map(drop)
    }),
    ("read_what_root_has", |_, lock| {
        lock();
        told(fs::read("/etc/passwd")).map(drop)
    }),
    ("make_a_file", |world, lock| {
        lock();
        told(fs::write(world.path("home/new"), "x"))
    }),
    ("make_a_directory", |world, lock| {
        lock();
        told(fs::create_dir(world.path("home/new")))
    }),
    ("write_what_can_be_read", |world, lock| {
        lock();
        told(fs::write(world.path("readable/text"), "x"))
    }),
    ("append_to_a_secret", |world, lock| {
        lock();
        told(File::options().append(true).open(world.path("home/secret"))).map(drop)
    }),
    ("truncate_a_secret", |world, lock| {
        lock();
        let path = c(world.path("home/secret"));
        // SAFETY: the path ends in zero.
        done(unsafe { libc::truncate(path.as_ptr(), 0) }.into()).map(drop)
    }),
    ("remove_a_secret", |world, lock| {
        lock();
        told(fs::remove_file(world.path("home/secret")))
    }),
    ("move_a_secret_to_what_is_mine", |world, lock| {
        lock();
        told(fs::rename(world.path("home/secret"), world.path("writable/x")))?;
        secret_at(&world.path("writable/x"))
    }),
    ("exchange_a_secret_for_mine", |world, lock| {
        told(fs::write(world.path("writable/x"), ""))?;
        lock();
        let (one, other) = (c(world.path("home/secret")), c(world.path("writable/x")));
        let (here, exchange) = (libc::AT_FDCWD, libc::RENAME_EXCHANGE);
        // SAFETY: the paths end in zero.
        done(unsafe {
            libc::syscall(libc::SYS_renameat2, here, one.as_ptr(), here, other.as_ptr(), exchange)
        })?;
        secret_at(&world.path("writable/x"))
    }),
    ("link_a_secret_to_what_is_mine", |world, lock| {
        lock();
        told(fs::hard_link(world.path("home/secret"), world.path("writable/x")))?;
        secret_at(&world.path("writable/x"))
    }),
    ("a_symbolic_link_to_a_secret", |world, lock| {
        lock();
        let link = world.path("writable/link");
        told(std::os::unix::fs::symlink("../home/secret", &link))?;
        secret_at(&link)
    }),
    ("a_link_that_was_there_before", |world, lock| {
        let link = world.path("readable/link");
        told(std::os::unix::fs::symlink(world.path("home"), &link))?;
        lock();
        secret_at(&link.join("secret"))
    }),
    ("a_directory_that_becomes_a_link", |world, lock| {
        told(fs::create_dir(world.path("writable/inner")))?;
        lock();
        told(fs::remove_dir(world.path("writable/inner")))?;
        told(std::os::unix::fs::symlink(world.path("home"), world.path("writable/inner")))?;
        secret_at(&world.path("writable/inner/secret"))
    }),
    ("up_and_down_again", |world, lock| {
        lock();
        secret_at(&world.path("readable/../home/secret"))
    }),
    ("through_the_root_of_this_process", |world, lock| {
        lock();
        secret_at(&format!("/proc/self/root{}", world.path("home/secret").display()))
    }),
    ("through_the_directory_of_this_process", |_, lock| {
        lock();
        secret_at(&"/proc/self/cwd/home/secret")
    }),
    ("have_others_wait_for_a_file", |world, lock| {
        let file = told(File::open(world.path("readable/text")))?;
        lock();
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) }.into())
            .map(drop)
    }),
    ("watch_a_directory", |world, lock| {
        // `DN_MODIFY`
        const CHANGES: libc::c_int = 2;
        let directory = told(File::open(world.path("readable")))?;
        lock();
        // SAFETY: as above.
        done(unsafe { libc::fcntl(directory.as_raw_fd(), libc::F_NOTIFY, CHANGES) }.into())
            .map(drop)
    }),
    ("change_what_a_file_system_keeps_of_a_file", |world, lock| {
        // `FS_IOC_SETFLAGS`, not to be dumped.
        const SET_FLAGS: libc::Ioctl = 0x4008_6602;
        let file = told(File::open(world.path("readable/text")))?;
        lock();
        let flags: libc::c_long = 0x40;
        // SAFETY: the number is read, and nothing is written.
        done(unsafe { libc::ioctl(file.as_raw_fd(), SET_FLAGS, &raw const flags) }.into()).map(drop)
    }),
    ("reopen_what_is_only_a_path", |world, lock| {
        lock();
        let path = told(
            File::options().read(true).custom_flags(libc::O_PATH).open(world.path("home/secret")),
        )?;
        secret_at(&format!("/proc/self/fd/{}", path.as_raw_fd()))
    }),
    ("from_a_directory_that_is_open", |world, lock| {
        let home = told(File::open(world.path("home")))?;
        lock();
        let name = c("secret");
        // SAFETY: the name ends in zero, and the directory is open.
        done(unsafe { libc::openat(home.as_raw_fd(), name.as_ptr(), libc::O_RDONLY) }.into())
            .map(drop)
    }),
    ("from_a_directory_that_was_entered", |world, lock| {
        told(std::env::set_current_dir(world.path("home")))?;
        lock();
        secret_at(&"secret")
    }),
    ("by_a_handle", by_a_handle),
    ("change_a_mode", |world, lock| {
        use std::os::unix::fs::PermissionsExt;
        lock();
        told(fs::set_permissions(world.path("home/secret"), fs::Permissions::from_mode(0o777)))
    }),
    ("change_a_mode_through_an_open_path", |world, lock| {
        let path = told(
            File::options().read(true).custom_flags(libc::O_PATH).open(world.path("home/secret")),
        )?;
        lock();
        let name = c(format!("/proc/self/fd/{}", path.as_raw_fd()));
        // SAFETY: the name ends in zero.
        done(unsafe { libc::syscall(libc::SYS_fchmodat, libc::AT_FDCWD, name.as_ptr(), 0o777) })
            .map(drop)
    }),
    ("change_a_mode_of_what_is_open_for_nothing", |world, lock| {
        lock();
        let path = c(world.path("home/secret"));
        // SAFETY: the path ends in zero.
        let fd = done(unsafe { libc::open(path.as_ptr(), 3) }.into())?;
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::fchmod(fd as i32, 0o777) }.into()).map(drop)
    }),
    ("open_for_nothing_by_openat2", |world, lock| {
        lock();
        let (path, how) = (c(world.path("home/secret")), [3_u64, 0, 0]);
        // SAFETY: the path ends in zero, and `how` is as long as is said.
        done(unsafe {
            libc::syscall(libc::SYS_openat2, libc::AT_FDCWD, path.as_ptr(), how.as_ptr(), 24_usize)
        })
        .map(drop)
    }),
    ("truncate_what_can_be_read", |world, lock| {
        lock();
        let path = c(world.path("readable/text"));
        // SAFETY: the path ends in zero.
        done(unsafe { libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_TRUNC) }.into()).map(drop)
    }),
    ("change_an_owner", |world, lock| {
        lock();
        told(std::os::unix::fs::chown(world.path("home/secret"), Some(own_user()), None))
    }),
    ("change_times", |world, lock| {
        lock();
        let path = c(world.path("home/secret"));
        // SAFETY: the path ends in zero, and without times the present is meant.
        done(unsafe { libc::utimensat(libc::AT_FDCWD, path.as_ptr(), std::ptr::null(), 0) }.into())
            .map(drop)
    }),
    ("set_an_attribute", |world, lock| {
        lock();
        let (path, name) = (c(world.path("home/secret")), c("user.belljar"));
        // SAFETY: path and name end in zero, and the value is as long as is said.
        done(
            unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), path.as_ptr().cast(), 1, 0) }
                .into(),
        )
        .map(drop)
    }),
    ("read_an_attribute", |world, lock| {
        let (path, name) = (c(world.path("home/secret")), c("user.belljar"));
        let value = name.as_ptr().cast();
        // SAFETY: path and name end in zero, and the value is as long as is said.
        let set = unsafe { libc::setxattr(path.as_ptr(), name.as_ptr(), value, 4, 0) };
        done(set.into())?;
        lock();
        let nothing = std::ptr::null_mut();
        // SAFETY: path and name end in zero, and nothing is written.
        done(unsafe { libc::getxattr(path.as_ptr(), name.as_ptr(), nothing, 0) } as i64).map(drop)
    }),
    ("make_a_pipe", |world, lock| {
        lock();
        let path = c(world.path("writable/pipe"));
        // SAFETY: the path ends in zero.
        done(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }.into()).map(drop)
    }),
    ("read_a_device", |_, lock| {
        lock();
        told(File::open("/dev/zero")).map(drop)
    }),
    ("read_the_victims_environment", |world, lock| {
        lock();
        told(fs::read(format!("/proc/{}/environ", world.victim))).map(drop)
    }),
    ("through_the_victims_root", |world, lock| {
        lock();
        let path = world.path("home/secret");
        secret_at(&format!("/proc/{}/root{}", world.victim, path.display()))
    }),
    ("change_the_kernels_settings", |_, lock| {
        lock();
        told(File::options().write(true).open("/proc/sys/kernel/core_pattern")).map(drop)
    }),
    ("adjust_who_is_killed_first", |_, lock| {
        lock();
        told(fs::write("/proc/self/oom_score_adj", "1"))
    }),
];

fn secret_at(path: &impl AsRef<std::path::Path>) -> Result<(), String> {
    match told(fs::read(path))? {
        read if read == SECRET => Ok(()),
        other => Err(format!("read {other:?}")),
    }
}

fn own_user() -> u32 {
    // SAFETY: this call takes nothing.
    unsafe { libc::getuid() }
}

/// Files have numbers, too.
fn by_a_handle(world: &World, lock: &dyn Fn()) -> Result<(), String> {
    #[repr(C)]
    struct Handle {
        length: u32,
        kind: i32,
        bytes: [u8; 128],
    }
    let mut handle = Handle {
        length: 128,
        kind: 0,
        bytes: [0; 128],
    };
    let (path, mut mount) = (c(world.path("home/secret")), 0);
    let place = told(File::open(world.path("readable")))?;
    // SAFETY: the path ends in zero, and the handle has room for as much as it says.
    done(unsafe {
        libc::syscall(
            libc::SYS_name_to_handle_at,
            libc::AT_FDCWD,
            path.as_ptr(),
            &raw mut handle,
            &raw mut mount,
            0,
        )
    })?;
    lock();
    // SAFETY: the handle is what the kernel wrote.
    done(unsafe {
        let flags = libc::O_RDONLY;
        libc::syscall(libc::SYS_open_by_handle_at, place.as_raw_fd(), &raw mut handle, flags)
    })
    .map(drop)
}
