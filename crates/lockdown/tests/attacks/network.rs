//! Sockets.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use super::Attack;
use super::world::{done, reached, told};

pub(crate) const ATTACKS: &[(&str, Attack)] = &[
    ("connect", |world, lock| {
        lock();
        told(TcpStream::connect(("127.0.0.1", world.port))).map(drop)
    }),
    ("connect_to_another_port", |world, lock| {
        lock();
        told(TcpStream::connect(("127.0.0.1", world.port))).map(drop)
    }),
    ("connect_what_was_a_socket_before", |world, lock| {
        let own = told(TcpListener::bind("127.0.0.1:0"))?;
        let address = told(own.local_addr())?;
        let stream = told(TcpStream::connect(address))?;
        lock();
        let nowhere = libc::sockaddr {
            sa_family: libc::AF_UNSPEC as libc::sa_family_t,
            sa_data: [0; 14],
        };
        let length = size_of::<libc::sockaddr>() as u32;
        // SAFETY: the address is as long as is said.
        done(unsafe { libc::connect(stream.as_raw_fd(), &raw const nowhere, length) }.into())?;
        let there = local(world.port);
        let length = size_of::<libc::sockaddr_in>() as u32;
        // SAFETY: as above.
        done(unsafe { libc::connect(stream.as_raw_fd(), (&raw const there).cast(), length) }.into())
            .map(drop)
    }),
    ("connect_by_sending_from_what_listened", |world, lock| {
        let listener = told(TcpListener::bind("127.0.0.1:0"))?;
        lock();
        // SAFETY: this call takes numbers only.
        done(unsafe { libc::shutdown(listener.as_raw_fd(), libc::SHUT_RDWR) }.into())?;
        send_and_connect(listener.as_raw_fd(), world.port)
    }),
    ("connect_by_sending_to_another_port", |world, lock| {
        lock();
        // SAFETY: this call takes numbers only.
        let fd = done(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) }.into())?;
        send_and_connect(fd as i32, world.port)
    }),
    ("connect_by_a_message_to_another_port", |world, lock| {
        lock();
        // SAFETY: this call takes numbers only.
        let fd = done(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) }.into())?;
        let mut there = local(world.port);
        let mut text = libc::iovec {
            iov_base: c"x".as_ptr().cast_mut().cast(),
            iov_len: 1,
        };
        // SAFETY: all-zero bytes are a valid header.
        let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
        message.msg_name = (&raw mut there).cast();
        message.msg_namelen = size_of::<libc::sockaddr_in>() as u32;
        message.msg_iov = &raw mut text;
        message.msg_iovlen = 1;
        // SAFETY: the parts of the message are as long as it says.
        done(unsafe { libc::sendmsg(fd as i32, &raw const message, libc::MSG_FASTOPEN) } as i64)
            .map(drop)
    }),
    ("put_another_protocol_on_tcp", |_, lock| {
        let listener = told(TcpListener::bind("127.0.0.1:0"))?;
        lock();
        let (name, tcp, upper) = (c"no such", libc::IPPROTO_TCP, libc::TCP_ULP);
        // SAFETY: the name is as long as is said.
        reached(
            unsafe { libc::setsockopt(listener.as_raw_fd(), tcp, upper, name.as_ptr().cast(), 7) }
                .into(),
        )
    }),
    ("listen", |_, lock| {
        lock();
        told(TcpListener::bind("127.0.0.1:0")).map(drop)
    }),
    ("listen_with_a_port_to_connect_to", |_, lock| {
        lock();
        told(TcpListener::bind("127.0.0.1:0")).map(drop)
    }),
    ("listen_at_a_path_that_is_mine", |world, lock| {
        lock();
        told(UnixListener::bind(world.path("writable/s"))).map(drop)
    }),
    ("send_a_datagram", |world, lock| {
        lock();
        let socket = told(UdpSocket::bind("127.0.0.1:0"))?;
        told(socket.send_to(b"x", ("127.0.0.1", world.udp_port))).map(drop)
    }),
    ("send_a_datagram_with_a_port_to_connect_to", |world, lock| {
        lock();
        let socket = told(UdpSocket::bind("127.0.0.1:0"))?;
        told(socket.send_to(b"x", ("127.0.0.1", world.udp_port))).map(drop)
    }),
    ("connect_to_an_abstract_socket", |world, lock| {
        lock();
        let address = told(SocketAddr::from_abstract_name(world.abstract_name()))?;
        told(UnixStream::connect_addr(&address)).map(drop)
    }),
    ("connect_to_a_socket_at_a_path", |world, lock| {
        lock();
        told(UnixStream::connect(world.path("victim.sock"))).map(drop)
    }),
    ("send_from_a_pair_to_an_abstract_socket", |world, lock| {
        lock();
        let (one, _other) = told(std::os::unix::net::UnixDatagram::pair())?;
        let name = format!("{}-datagrams", world.abstract_name());
        let address = told(SocketAddr::from_abstract_name(name))?;
        told(one.send_to_addr(b"x", &address)).map(drop)
    }),
    ("send_from_an_old_pair_to_an_abstract_socket", |world, lock| {
        let (one, _other) = told(std::os::unix::net::UnixDatagram::pair())?;
        lock();
        let name = format!("{}-datagrams", world.abstract_name());
        let address = told(SocketAddr::from_abstract_name(name))?;
        told(one.send_to_addr(b"x", &address)).map(drop)
    }),
    ("listen_to_all_packets", |_, lock| {
        lock();
        socket(libc::AF_PACKET, libc::SOCK_RAW, 0)
    }),
    ("ask_the_kernel_by_netlink", |_, lock| {
        lock();
        socket(libc::AF_NETLINK, libc::SOCK_RAW, libc::NETLINK_ROUTE)
    }),
    ("a_raw_socket_with_a_port_to_connect_to", |_, lock| {
        lock();
        socket(libc::AF_INET, libc::SOCK_RAW, libc::IPPROTO_ICMP)
    }),
    ("a_unix_socket_with_a_port_to_connect_to", |_, lock| {
        lock();
        socket(libc::AF_UNIX, libc::SOCK_STREAM, 0)
    }),
];

fn socket(family: i32, kind: i32, protocol: i32) -> Result<(), String> {
    // SAFETY: this call takes numbers only.
    done(unsafe { libc::socket(family, kind, protocol) }.into()).map(drop)
}

/// Connects as the first bytes are sent.
fn send_and_connect(fd: i32, port: u16) -> Result<(), String> {
    let (there, length) = (local(port), size_of::<libc::sockaddr_in>() as u32);
    let (text, flags) = (c"x".as_ptr().cast(), libc::MSG_FASTOPEN);
    // SAFETY: text and address are as long as is said.
    done(unsafe { libc::sendto(fd, text, 1, flags, (&raw const there).cast(), length) } as i64)
        .map(drop)
}

fn local(port: u16) -> libc::sockaddr_in {
    libc::sockaddr_in {
        sin_family: libc::AF_INET as libc::sa_family_t,
        sin_port: port.to_be(),
        sin_addr: libc::in_addr {
            s_addr: u32::from_be_bytes([127, 0, 0, 1]).to_be(),
        },
        sin_zero: [0; 8],
    }
}
