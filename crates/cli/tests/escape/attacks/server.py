"""The server's process, which keeps more: its keys, its state and its sockets."""

KEYS, STATE, HOME = WORLD["keys"], WORLD["state"], WORLD["home"]


@attack
def read_an_ssh_key():
    has_secret(read_file(HOME + "/.ssh/id_ed25519"))


@attack
def write_to_the_home_directory():
    make_file(HOME + "/.profile")


@attack
def give_itself_a_key():
    call("close", open_file(KEYS, O_WRONLY))


@attack
def exchange_the_keys():
    make_file(STATE + "/keys", "x")
    call("renameat2", AT_FDCWD, STATE + "/keys", AT_FDCWD, KEYS, 0)


@attack
def add_to_the_cache():
    path = f"{WORLD['cache']}/planted-by-{WORLD['victim']}"
    make_file(path)
    remove_file(path)


@attack
def listen_in_the_servers_place():
    address = struct.pack("<H", 2) + struct.pack(">H4B", 0, 127, 0, 0, 1) + bytes(8)
    fd = call("socket", 2, 1, 0)
    call("bind", fd, address, len(address))
    call("listen", fd, 1)


@attack
def connect_to_this_machine():
    address = struct.pack("<H", 2) + struct.pack(">H4B", WORLD["port"], 127, 0, 0, 1) + bytes(8)
    call("connect", call("socket", 2, 1, 0), address, len(address))


@attack
def fork():
    in_child(lambda: None)


@attack
def outlive_the_server():
    call("setsid")


@attack
def read_the_victims_memory():
    buffer = room(64)
    fd = open_file(f"/proc/{WORLD['victim']}/mem")
    has_secret(peek(buffer, call("pread64", fd, buffer, 64, WORLD["address"])))


@attack
def end_the_victim():
    call("kill", WORLD["victim"], 9)


@attack_as_root
def have_the_rights_of_root():
    header, sets = place(struct.pack("<Ii", 0x20080522, 0)), room(24)
    call("capget", header, sets)
    effective, permitted, *_ = struct.unpack("<6I", peek(sets, 24))
    if not (effective | permitted) & 1 << 21:
        raise Failed("capget", 1)


@stays
def read_the_keys():
    assert b"key" in read_file(KEYS)


@stays
def write_the_state():
    make_file(STATE + "/planted")
