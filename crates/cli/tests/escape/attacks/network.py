"""Sockets and what processes share."""

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET, AF_ALG, AF_VSOCK = 1, 2, 10, 16, 17, 38, 40
STREAM, DATAGRAM, RAW = 1, 2, 3


def internet(port, host=(127, 0, 0, 1)):
    return struct.pack("<H", AF_INET) + struct.pack(">H4B", port, *host) + bytes(8)


def unix(name):
    return struct.pack("<H", AF_UNIX) + name.encode()


@attack
def connect_to_this_machine():
    address = internet(WORLD["port"])
    call("connect", call("socket", AF_INET, STREAM, 0), address, len(address))


@attack
def connect_to_another_machine():
    # An address for examples: whether it can be reached is not the question.
    address = internet(80, (192, 0, 2, 1))
    reached("connect", call("socket", AF_INET, STREAM | O_NONBLOCK, 0), address, len(address))


@attack
def connect_by_sending():
    address = internet(WORLD["port"])
    fd = call("socket", AF_INET, STREAM, 0)
    call("sendto", fd, "x", 1, 0x20000000, address, len(address))


@attack
def connect_over_several_paths():
    call("socket", AF_INET, STREAM, 262)


@attack
def send_a_datagram():
    address = internet(WORLD["udp_port"])
    fd = call("socket", AF_INET, DATAGRAM, 0)
    call("sendto", fd, "x", 1, 0, address, len(address))


@attack
def open_a_socket_of_ip_6():
    call("socket", AF_INET6, STREAM, 0)


@attack_as_root
def open_a_raw_socket():
    call("socket", AF_INET, RAW, 1)


@attack_as_root
def read_all_packets():
    call("socket", AF_PACKET, RAW, 0x0300)


@attack
def talk_to_the_kernel():
    call("socket", AF_NETLINK, RAW, 0)


@attack
def talk_to_the_hypervisor():
    call("socket", AF_VSOCK, STREAM, 0)


@attack
def use_the_kernels_cryptography():
    call("socket", AF_ALG, 5, 0)


@attack
def listen_for_connections():
    address = internet(0)
    fd = call("socket", AF_INET, STREAM, 0)
    call("bind", fd, address, len(address))
    call("listen", fd, 1)


@attack_as_root
def listen_on_a_port_of_the_system():
    address = internet(WORLD["low_port"])
    call("bind", call("socket", AF_INET, STREAM, 0), address, len(address))


@attack
def connect_to_a_unix_socket():
    address = unix(WORLD["socket"])
    call("connect", call("socket", AF_UNIX, STREAM, 0), address, len(address) + 1)


@attack
def connect_to_an_abstract_socket():
    address = unix("\0" + WORLD["abstract"])
    call("connect", call("socket", AF_UNIX, STREAM, 0), address, len(address))


@attack
def send_to_an_abstract_socket():
    address = unix("\0" + WORLD["abstract"] + "-datagrams")
    fd = call("socket", AF_UNIX, DATAGRAM, 0)
    call("sendto", fd, "x", 1, 0, address, len(address))


@attack
def listen_on_a_unix_socket():
    address = unix(WORLD["out"] + "/listens")
    call("bind", call("socket", AF_UNIX, STREAM, 0), address, len(address) + 1)


@attack
def send_through_a_pair_of_datagrams():
    address = unix(WORLD["socket"] + "-datagrams")
    pair = room(8)
    call("socketpair", AF_UNIX, DATAGRAM, 0, pair)
    one, _ = struct.unpack("<2i", peek(pair, 8))
    call("sendto", one, "x", 1, 0, address, len(address) + 1)


@attack
def share_memory():
    call("shmctl", call("shmget", 0, 4096, 0o1600), 0, 0)


@attack
def share_semaphores():
    call("semctl", call("semget", 0, 1, 0o1600), 0, 0)


@attack
def share_a_queue():
    call("msgctl", call("msgget", 0, 0o1600), 0, 0)


@attack
def share_a_queue_with_a_name():
    name = f"belljar-{WORLD['victim']}"
    call("mq_open", name, O_CREAT | O_RDWR, 0o600, 0)
    call("mq_unlink", name)
