"""Other parts of the kernel."""

CAP_SYS_ADMIN = 1 << 21


@attack_as_root
def have_the_rights_of_root():
    header, sets = place(struct.pack("<Ii", 0x20080522, 0)), room(24)
    call("capget", header, sets)
    effective, permitted, *_ = struct.unpack("<6I", peek(sets, 24))
    if not (effective | permitted) & CAP_SYS_ADMIN:
        raise Failed("capget", 1)


@attack
def change_its_capabilities():
    header, sets = place(struct.pack("<Ii", 0x20080522, 0)), room(24)
    call("capget", header, sets)
    call("capset", header, sets)


@attack
def make_a_user_namespace():
    # A process with threads cannot: the kernel says so after the filter.
    reached("unshare", CLONE_NEWUSER)


@attack_as_root
def make_a_mount_namespace():
    call("unshare", CLONE_NEWNS)


@attack_as_root
def make_a_network_namespace():
    call("unshare", CLONE_NEWNET)


@attack_as_root
def make_a_process_namespace():
    call("unshare", CLONE_NEWPID)


@attack_as_root
def enter_a_namespace():
    call("setns", open_file("/proc/self/ns/uts"), 0)


@attack_as_root
def mount_a_file_system():
    call("unshare", CLONE_NEWNS)
    call("mount", "tmpfs", WORLD["out"], "tmpfs", 0, 0)


@attack_as_root
def open_a_file_system():
    call("fsopen", "tmpfs", 0)


@attack_as_root
def unmount_a_file_system():
    reached("umount2", WORLD["out"], 0)


@attack_as_root
def change_the_root():
    call("chroot", WORLD["out"])


@attack_as_root
def exchange_the_root():
    reached("pivot_root", WORLD["out"], WORLD["out"])


@attack_as_root
def load_a_program_into_the_kernel():
    # An array of one: kind, size of keys, size of values, entries.
    call("bpf", 0, place(struct.pack("<4I", 2, 4, 4, 1) + bytes(112)), 128)


@attack_as_root
def count_events():
    event = struct.pack("<2IQ", 1, 128, 0) + bytes(112)
    call("perf_event_open", event, 0, -1, -1, 0)


@attack_as_root
def handle_the_kernels_faults():
    call("userfaultfd", 0)


@attack
def ask_by_a_ring():
    call("io_uring_setup", 1, room(256))


@attack
def ask_asynchronously():
    call("io_setup", 1, room(8))


@attack
def add_a_key():
    call("add_key", "user", "belljar", "x", 1, -2)


@attack
def look_at_keys():
    call("keyctl", 0, -3, 1)


@attack_as_root
def load_a_module():
    reached("init_module", "", 1, "")


@attack_as_root
def load_a_module_from_a_file():
    reached("finit_module", -1, "", 0)


@attack_as_root
def remove_a_module():
    reached("delete_module", "belljar_is_none", 0)


@attack_as_root
def load_another_kernel():
    reached("kexec_load", 0, 0, 0, MASK)


@attack_as_root
def restart_the_machine():
    # Not its magic numbers.
    reached("reboot", 1, 2, 3, 0)


@attack_as_root
def swap():
    reached("swapon", "/nowhere", 0)


@attack_as_root
def stop_swapping():
    reached("swapoff", "/nowhere")


@attack_as_root
def keep_accounts():
    reached("acct", "/nowhere")


@attack_as_root
def rename_the_machine():
    names = room(512)
    call("uname", names)
    name = peek(names + 65, 65).split(b"\0")[0]
    call("sethostname", name, len(name))


@attack_as_root
def set_the_clock():
    reached("clock_settime", 0, struct.pack("<2q", -1, -1))


@attack_as_root
def set_the_time_of_day():
    reached("settimeofday", struct.pack("<2q", -1, -1), 0)


@attack
def adjust_the_clock():
    call("adjtimex", room(512))


@attack_as_root
def limit_users():
    reached("quotactl", 0x800007 << 8, "/nowhere", 0, 0)


@attack_as_root
def read_the_kernels_log():
    call("syslog", 10, 0, 0)


@attack_as_root
def become_another_user():
    call("setresuid", 65534, 65534, 65534)


@attack_as_root
def leave_all_groups():
    call("setgroups", 0, 0)


@attack
def have_another_personality():
    call("personality", 0x0040000)


@attack
def be_dumpable_again():
    call("prctl", 4, 1, 0, 0, 0)


@attack
def type_for_the_user():
    reached("ioctl", 0, 0x5412, "x")


@stays
def ask_how_late_it_is():
    call("clock_gettime", 1, room(16))
