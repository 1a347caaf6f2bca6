//! Messages between the front, the spawner and the workers: JSON and descriptors over a pair of
//! sockets.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Maximum size of a message, in bytes.
const MAX_MESSAGE: usize = 64 << 10;
/// Maximum number of descriptors in a message.
const MAX_DESCRIPTORS: usize = 2;
/// Size of the length before a message.
const HEAD: usize = 4;

/// Sends a message. Fails instead of waiting if the receiver does not read.
pub(super) fn send(
    socket: impl AsFd,
    message: &impl Serialize,
    descriptors: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let text = serde_json::to_vec(message)?;
    if text.len() > MAX_MESSAGE {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "the message is too long"));
    }
    let head = (text.len() as u32).to_le_bytes();
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "too many descriptors"));
    }
    let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
    let parts = [IoSlice::new(&head), IoSlice::new(&text)];
    let sent = retry(|| sendmsg(&socket, &parts, &mut control, flags))?;
    // A part of a message could not be told from the next one.
    if sent == HEAD + text.len() {
        Ok(())
    } else {
        Err(io::ErrorKind::BrokenPipe.into())
    }
}

/// Waits for a message; `None` at the end of the stream. The socket blocks.
pub(super) fn receive<T: DeserializeOwned>(
    socket: impl AsFd,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut head = [0; HEAD];
    let (read, descriptors) = receive_part(&socket, &mut head)?;
    if read == 0 {
        return Ok(None);
    }
    fill(&socket, &mut head[read..])?;
    let length = u32::from_le_bytes(head) as usize;
    if length > MAX_MESSAGE {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the message is too long"));
    }
    let mut text = vec![0; length];
    fill(&socket, &mut text)?;
    Ok(Some((serde_json::from_slice(&text)?, descriptors)))
}

fn fill(socket: &impl AsFd, mut buffer: &mut [u8]) -> io::Result<()> {
    while !buffer.is_empty() {
        let (read, _) = match receive_part(socket, buffer) {
            // The rest of a message follows at once.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            part => part?,
        };
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        buffer = &mut buffer[read..];
    }
    Ok(())
}

fn receive_part(socket: &impl AsFd, buffer: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_DESCRIPTORS))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    #[cfg(target_os = "linux")]
    let flags = RecvFlags::CMSG_CLOEXEC;
    #[cfg(not(target_os = "linux"))]
    let flags = RecvFlags::empty();
    let received = retry(|| recvmsg(socket, &mut [IoSliceMut::new(buffer)], &mut control, flags))?;
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            descriptors.extend(some);
        }
    }
    #[cfg(not(target_os = "linux"))]
    for descriptor in &descriptors {
        rustix::io::fcntl_setfd(descriptor, rustix::io::FdFlags::CLOEXEC)?;
    }
    Ok((received.bytes, descriptors))
}

fn retry<T>(mut call: impl FnMut() -> Result<T, Errno>) -> io::Result<T> {
    loop {
        match call() {
            Err(Errno::INTR) => {}
            done => return done.map_err(io::Error::from),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_message_arrives_with_its_descriptors() {
        let (one, other) = UnixStream::pair().unwrap();
        let (mut near, far) = UnixStream::pair().unwrap();
        send(&one, &"plain", &[]).unwrap();
        send(&one, &"with", &[far.as_fd()]).unwrap();
        send(&one, &"last", &[]).unwrap();
        drop((one, far));
        let next = || receive::<String>(&other).unwrap();
        let (text, descriptors) = next().unwrap();
        assert_eq!((text.as_str(), descriptors.len()), ("plain", 0));
        let (text, mut descriptors) = next().unwrap();
        assert_eq!((text.as_str(), descriptors.len()), ("with", 1));
        let mut passed = UnixStream::from(descriptors.remove(0));
        assert!(next().unwrap().1.is_empty() && next().is_none());
        passed.write_all(b"x").unwrap();
        drop(passed);
        let mut text = String::new();
        near.read_to_string(&mut text).unwrap();
        assert_eq!(text, "x");
    }

    #[test]
    fn a_receiver_that_does_not_read_is_not_waited_for() {
        let (one, _other) = UnixStream::pair().unwrap();
        let text = "x".repeat(60 << 10);
        let failed = (0..1000).find_map(|_| send(&one, &text, &[]).err());
        assert!(failed.is_some());
    }

    #[test]
    fn a_length_that_no_message_has_is_refused() {
        let (mut one, other) = UnixStream::pair().unwrap();
        one.write_all(&u32::MAX.to_le_bytes()).unwrap();
        assert!(receive::<String>(&other).is_err());
    }
}
