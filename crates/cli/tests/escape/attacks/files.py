"""Files that were not named."""

HOME, OUT, DATA, CACHE = WORLD["home"], WORLD["out"], WORLD["data"], WORLD["cache"]
KEY = HOME + "/.ssh/id_ed25519"


@attack
def read_an_ssh_key():
    has_secret(read_file(KEY))


@attack
def read_the_keys_of_a_server():
    has_secret(read_file(HOME + "/keys.toml"))


@attack
def read_the_users():
    assert b"root:" in read_file("/etc/passwd")


@attack_as_root
def read_the_passwords():
    read_file("/etc/shadow")


@attack
def list_the_home_directory():
    buffer = room(4096)
    assert b".ssh" in peek(buffer, call("getdents64", open_file(HOME), buffer, 4096))


@attack
def read_by_openat2():
    buffer = room(64)
    fd = call("openat2", AT_FDCWD, KEY, struct.pack("<3Q", 0, 0, 0), 24)
    has_secret(peek(buffer, call("read", fd, buffer, 64)))


@attack
def read_through_the_root_of_the_process():
    has_secret(read_file("/proc/self/root" + KEY))


@attack
def read_up_from_the_mount():
    has_secret(read_file(DATA + "/../home/.ssh/id_ed25519"))


@attack
def read_through_a_new_link():
    call("symlinkat", HOME, AT_FDCWD, OUT + "/link")
    has_secret(read_file(OUT + "/link/.ssh/id_ed25519"))


@attack
def reopen_what_is_only_a_path():
    fd = open_file(KEY, O_PATH)
    has_secret(read_file(f"/proc/self/fd/{fd}"))


@attack_as_root
def read_by_a_handle():
    handle, mount = place(struct.pack("<2I", 128, 0) + bytes(128)), room(8)
    call("name_to_handle_at", AT_FDCWD, KEY, handle, mount, 0)
    fd = call("open_by_handle_at", open_file(HOME), handle, O_RDONLY)
    buffer = room(64)
    has_secret(peek(buffer, call("read", fd, buffer, 64)))


@attack
def move_a_key_to_a_writable_directory():
    call("renameat2", AT_FDCWD, KEY, AT_FDCWD, OUT + "/moved", 0)


@attack
def link_a_key_to_a_writable_directory():
    call("linkat", AT_FDCWD, KEY, AT_FDCWD, OUT + "/linked", 0)


@attack
def write_to_the_home_directory():
    make_file(HOME + "/.profile")


@attack
def write_to_the_directory_for_temporary_files():
    make_file(WORLD["root"] + "/planted")


@attack
def write_to_the_current_directory():
    make_file("planted")


@attack
def write_to_shared_memory():
    path = f"/dev/shm/belljar-escape-{WORLD['victim']}"
    make_file(path)
    remove_file(path)


@attack
def add_to_the_cache():
    path = f"{CACHE}/planted-{WORLD['victim']}"
    make_file(path)
    remove_file(path)


@attack
def write_the_native_code_of_other_processes():
    call("close", open_file(WORLD["code"], O_WRONLY))


@attack
def move_native_code_into_the_cache():
    path = f"{CACHE}/moved-{WORLD['victim']}"
    make_file(OUT + "/code")
    call("renameat2", AT_FDCWD, OUT + "/code", AT_FDCWD, path, 1)
    remove_file(path)


@attack
def write_to_a_mount():
    call("close", open_file(DATA + "/text", O_WRONLY))


@attack
def truncate_a_key():
    call("truncate", KEY, 0)


@attack
def remove_a_key():
    remove_file(KEY)


@attack
def make_a_directory():
    call("mkdirat", AT_FDCWD, HOME + "/made", 0o700)


@attack
def make_a_symbolic_link():
    call("symlinkat", "/", AT_FDCWD, HOME + "/link")


@attack
def open_a_key_to_all_users():
    call("fchmodat", AT_FDCWD, KEY, 0o666)


@attack_as_root
def give_a_key_away():
    call("fchownat", AT_FDCWD, KEY, 65534, 65534, 0)


@attack
def change_the_times_of_a_key():
    call("utimensat", AT_FDCWD, KEY, 0, 0)


@attack
def set_an_extended_attribute():
    call("setxattr", DATA + "/text", "user.belljar", "x", 1, 0)


@attack
def set_the_flags_of_a_readable_file():
    flags = place(struct.pack("<Q", 0x40))  # not to be dumped
    call("ioctl", open_file(DATA + "/text"), 0x40086602, flags)


@attack
def make_a_pipe_with_a_name():
    call("mknodat", AT_FDCWD, OUT + "/pipe", 0o010600, 0)


@attack_as_root
def make_a_device():
    call("mknodat", AT_FDCWD, OUT + "/null", 0o020600, 0x103)


@attack
def watch_files():
    call("inotify_add_watch", call("inotify_init1", 0), HOME, 0x20)


@attack_as_root
def watch_all_files():
    call("fanotify_init", 0, 0)


@attack
def watch_a_readable_directory():
    call("fcntl", open_file(DATA), 1026, 0x2)


@attack
def lease_a_readable_file():
    call("fcntl", open_file(DATA + "/text"), 1024, 0)


@attack_as_root
def read_the_kernels_messages():
    call("close", open_file("/dev/kmsg", O_RDONLY | O_NONBLOCK))


@attack_as_root
def set_a_setting_of_the_kernel():
    call("close", open_file("/proc/sys/kernel/core_pattern", O_WRONLY))


@attack
def change_its_rank_when_memory_is_short():
    call("close", open_file("/proc/self/oom_score_adj", O_WRONLY))


@attack_as_root
def thaw_a_file_system():
    reached("ioctl", open_file(DATA), 0xC0045878, 0)


@stays
def see_that_a_file_is_there():
    call("newfstatat", AT_FDCWD, KEY, room(256), 0)


@stays
def change_the_mode_of_a_readable_file():
    call("fchmod", open_file(DATA + "/text"), 0o600)


@stays
def read_the_environment_of_its_own_process():
    assert b"PATH=" in read_file("/proc/self/environ", 1 << 16)
