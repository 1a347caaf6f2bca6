"""Programs, and other processes."""

VICTIM = WORLD["victim"]


def echo():
    """The arguments of a program that reports a success in the attack's place."""
    return vector("echo", "SUCCEEDED")


def memory_of_the_victim():
    buffer = room(64)
    own = place(struct.pack("<2Q", buffer, 64))
    theirs = place(struct.pack("<2Q", WORLD["address"], len(WORLD["secret"])))
    return buffer, own, theirs


@attack
def start_a_program():
    call("execve", "/bin/echo", echo(), vector())


@attack
def start_a_program_by_its_descriptor():
    # Opened for reading, which is denied: so this one asks for a path only.
    fd = open_file("/bin", O_PATH)
    call("execveat", fd, "echo", echo(), vector(), 0)


@attack
def start_a_program_from_memory():
    fd = call("memfd_create", "program", 0)
    text = "#!/bin/echo SUCCEEDED\n"
    call("write", fd, text, len(text))
    call("execveat", fd, "", vector("x"), vector(), AT_EMPTY_PATH)


@attack
def fork():
    in_child(lambda: None)


@attack
def fork_by_clone3():
    # flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls
    child = call("clone3", place(struct.pack("<8Q", 0, 0, 0, 0, SIGCHLD, 0, 0, 0)), 64)
    if child == 0:
        call("exit_group", 0)
    call("wait4", child, 0, 0, 0)


@attack
def exhaust_process_numbers():
    children = []
    for _ in range(64):
        child = call("clone", SIGCHLD, 0, 0, 0, 0)
        if child == 0:
            call("nanosleep", place(struct.pack("<2q", 20, 0)), 0)
            call("exit_group", 0)
        children.append(child)
    for child in children:
        call("kill", child, 9)
        call("wait4", child, 0, 0, 0)


@attack
def outlive_the_process():
    def leave():
        call("setsid")
        if call("clone", SIGCHLD, 0, 0, 0, 0) == 0:
            call("nanosleep", place(struct.pack("<2q", 0, 100_000_000)), 0)

    in_child(leave)


@attack
def leave_the_process_group():
    # Started by a shell or a service manager, it is ended with its group.
    call("setpgid", 0, 0)


@attack
def leave_the_session():
    call("setsid")


@attack
def outlive_the_parent():
    call("prctl", 1, 0, 0, 0, 0)


@attack
def end_the_victim():
    call("kill", VICTIM, 9)


@attack
def signal_a_thread_of_the_victim():
    call("tgkill", VICTIM, VICTIM, 0)


@attack
def signal_a_thread_by_its_number():
    call("tkill", VICTIM, 0)


@attack
def queue_a_signal():
    call("rt_sigqueueinfo", VICTIM, 10, place(struct.pack("<3i", 10, 0, -1) + bytes(116)))


@attack
def signal_the_process_group():
    call("kill", 0, 0)


@attack
def signal_by_a_descriptor():
    call("pidfd_send_signal", call("pidfd_open", VICTIM, 0), 0, 0, 0)


@attack
def have_the_kernel_signal_the_victim():
    pair = room(8)
    call("socketpair", 1, 1, 0, pair)
    one, _ = struct.unpack("<2i", peek(pair, 8))
    call("fcntl", one, 8, VICTIM)


@attack
def trace_the_victim():
    call("ptrace", 0x4206, VICTIM, 0, 0)


@attack
def read_the_victims_memory():
    buffer, own, theirs = memory_of_the_victim()
    call("process_vm_readv", VICTIM, own, 1, theirs, 1, 0)
    has_secret(peek(buffer, 64))


@attack
def write_the_victims_memory():
    buffer, own, theirs = memory_of_the_victim()
    call("process_vm_readv", VICTIM, own, 1, theirs, 1, 0)
    call("process_vm_writev", VICTIM, own, 1, theirs, 1, 0)


@attack
def read_the_victims_memory_as_a_file():
    buffer = room(64)
    fd = open_file(f"/proc/{VICTIM}/mem")
    has_secret(peek(buffer, call("pread64", fd, buffer, 64, WORLD["address"])))


@attack
def read_the_victims_environment():
    has_secret(read_file(f"/proc/{VICTIM}/environ", 1 << 16))


@attack
def read_the_victims_maps():
    assert read_file(f"/proc/{VICTIM}/maps")


@attack
def list_the_victims_files():
    buffer = room(4096)
    assert call("getdents64", open_file(f"/proc/{VICTIM}/fd"), buffer, 4096)


@attack
def enter_the_victims_directory():
    call("close", open_file(f"/proc/{VICTIM}/root/etc/passwd"))


@attack
def list_all_processes():
    buffer = room(1 << 16)
    assert call("getdents64", open_file("/proc"), buffer, 1 << 16)


@attack
def take_a_descriptor_of_the_victim():
    call("pidfd_getfd", call("pidfd_open", VICTIM, 0), 0, 0)


@attack
def compare_with_the_victim():
    call("kcmp", call("getpid"), VICTIM, 1, 0, 0)


@attack
def limit_the_victim():
    call("prlimit64", VICTIM, 4, place(struct.pack("<2Q", 0, 0)), 0)


@attack
def slow_the_victim():
    call("setpriority", 0, VICTIM, 10)


@attack
def move_the_victim_to_another_processor():
    call("sched_setaffinity", VICTIM, 8, place(struct.pack("<Q", MASK)))


@attack
def schedule_the_victim():
    call("sched_setscheduler", VICTIM, 3, place(struct.pack("<i", 0)))


@attack
def delay_the_victims_disk():
    call("ioprio_set", 1, VICTIM, 3 << 13)


@attack
def move_the_victims_pages():
    call("move_pages", VICTIM, 0, 0, 0, 0, 0)


@attack_as_root
def be_preferred():
    call("setpriority", 0, 0, -20 & MASK)


@attack_as_root
def lock_more_memory_than_allowed():
    call("prlimit64", 0, 8, place(struct.pack("<2Q", 4096, 4096)), 0)
    call("mlock", room(1 << 20), 1 << 20)


@stays
def start_threads():
    # A thread without the handlers of its process, which the kernel rejects after the filter.
    reached("clone", 0x100 | 0x10000, 0, 0, 0, 0)


@stays
def make_memory_that_can_be_run():
    flags = MAP_PRIVATE | MAP_ANONYMOUS
    call("mmap", 0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, flags, -1, 0)


@stays
def ignore_the_signal_to_stop():
    action = place(struct.pack("<4Q", 1, 0, 0, 0))
    call("rt_sigaction", 15, action, 0, 8)
