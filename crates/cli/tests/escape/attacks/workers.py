"""The process of an account, beside that of another account, whose session holds a secret."""

WORKER, FRONT, SPAWNER = WORLD["worker"], WORLD["front"], WORLD["spawner"]
STATE, KEYS, STORE = WORLD["state"], WORLD["keys"], WORLD["store"]


def memory_of(process):
    """The first page of its program, as the list of its mappings says."""
    maps = read_file(f"/proc/{process}/maps").decode()
    return int(maps.split("-")[0], 16)


@attack
def read_another_accounts_memory():
    buffer = room(64)
    fd = open_file(f"/proc/{WORKER}/mem")
    assert call("pread64", fd, buffer, 64, memory_of(WORKER)) == 64


@attack
def read_another_accounts_memory_by_its_number():
    buffer = room(64)
    own = place(struct.pack("<2Q", buffer, 64))
    # The address does not matter: the right is checked first.
    reached("process_vm_readv", WORKER, own, 1, place(struct.pack("<2Q", 4096, 64)), 1, 0)


@attack
def trace_another_account():
    call("ptrace", 0x4206, WORKER, 0, 0)


@attack
def take_a_socket_of_another_account():
    call("pidfd_getfd", call("pidfd_open", WORKER, 0), 0, 0)


@attack
def list_another_accounts_files():
    buffer = room(4096)
    assert call("getdents64", open_file(f"/proc/{WORKER}/fd"), buffer, 4096)


@attack
def end_another_account():
    call("kill", WORKER, 9)


@attack
def limit_another_account():
    call("prlimit64", WORKER, 4, place(struct.pack("<2Q", 0, 0)), 0)


@attack
def slow_another_account():
    call("setpriority", 0, WORKER, 10)


@attack
def read_the_fronts_memory():
    buffer = room(64)
    fd = open_file(f"/proc/{FRONT}/mem")
    assert call("pread64", fd, buffer, 64, memory_of(FRONT)) == 64


@attack
def end_the_front():
    call("kill", FRONT, 0)


@attack
def trace_the_spawner():
    call("ptrace", 0x4206, SPAWNER, 0, 0)


@attack
def take_the_spawners_socket():
    # With it, the front's orders could be read, and workers started.
    call("pidfd_getfd", call("pidfd_open", SPAWNER, 0), 0, 0)


@attack
def read_the_keys():
    assert b"key" in read_file(KEYS)


@attack
def write_the_keys():
    call("close", open_file(KEYS, O_WRONLY))


@attack
def list_the_accounts_states():
    buffer = room(4096)
    call("getdents64", open_file(STATE), buffer, 4096)


@attack
def write_beside_its_own_state():
    make_file(STATE + "/planted")


@attack
def read_the_store_without_the_front():
    buffer = room(4096)
    call("getdents64", open_file(STORE), buffer, 4096)


@attack
def write_to_the_store_without_the_front():
    make_file(STORE + "/planted")


@attack
def outlive_the_spawner():
    call("prctl", 1, 0, 0, 0, 0)


@attack
def connect_to_the_front():
    address = struct.pack("<H", 2) + struct.pack(">H4B", WORLD["port"], 127, 0, 0, 1) + bytes(8)
    call("connect", call("socket", 2, 1, 0), address, len(address))


@attack
def add_to_the_cache_of_other_accounts():
    path = f"{WORLD['cache']}/planted-from-{WORLD['victim']}"
    make_file(path)
    remove_file(path)


@attack_as_root
def have_the_rights_of_root():
    header, sets = place(struct.pack("<Ii", 0x20080522, 0)), room(24)
    call("capget", header, sets)
    effective, permitted, *_ = struct.unpack("<6I", peek(sets, 24))
    if not (effective | permitted) & 1 << 21:
        raise Failed("capget", 1)
