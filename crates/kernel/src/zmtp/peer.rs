//! Listeners and connections.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpListener;
#[cfg(unix)]
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::timeout;

use super::frame::{
    Decoder, GREETING, Ready, Said, check_greeting, command, greeting, invalid, read_ready, ready,
};
use super::outbox::Outbox;

/// Maximum number of connections to a socket.
const MAX_PEERS: usize = 512;
/// Maximum number of connections in the handshake; beyond it, the oldest is closed.
const MAX_STRANGERS: usize = 64;
/// Time limit for the handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Bytes to read at once.
const CHUNK: usize = 64 << 10;

/// A connection for reading and writing.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// A listener.
#[derive(Debug)]
pub(crate) enum Listener {
    /// TCP.
    Tcp(TcpListener),
    /// A socket in the file system, removed on drop.
    #[cfg(unix)]
    Unix {
        listener: UnixListener,
        _path: SocketPath,
    },
}

/// The path of a socket.
#[cfg(unix)]
#[derive(Debug)]
pub(crate) struct SocketPath(std::path::PathBuf);

#[cfg(unix)]
impl Drop for SocketPath {
    fn drop(&mut self) {
        // The owner of the directory may have removed it already.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl Listener {
    /// Listens on a port; for 0 the system chooses one.
    pub(crate) async fn tcp(ip: &str, port: u16) -> io::Result<Self> {
        Ok(Self::Tcp(TcpListener::bind((ip, port)).await?))
    }

    /// Listens on a path that only its owner can access.
    #[cfg(unix)]
    pub(crate) fn unix(path: &std::path::Path) -> io::Result<Self> {
        use std::os::unix::fs::PermissionsExt;
        let listener = UnixListener::bind(path)?;
        let socket = SocketPath(path.to_owned());
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
        Ok(Self::Unix {
            listener,
            _path: socket,
        })
    }

    /// The TCP port.
    pub(crate) fn port(&self) -> Option<u16> {
        match self {
            Self::Tcp(listener) => listener.local_addr().ok().map(|address| address.port()),
            #[cfg(unix)]
            Self::Unix { .. } => None,
        }
    }

    async fn accept(&self) -> io::Result<Box<dyn Stream>> {
        Ok(match self {
            Self::Tcp(listener) => {
                let stream = listener.accept().await?.0;
                // Messages are small, and their receivers wait for them.
                let _ = stream.set_nodelay(true);
                Box::new(stream)
            }
            #[cfg(unix)]
            Self::Unix { listener, .. } => Box::new(listener.accept().await?.0),
        })
    }
}

/// Handles the connections to a socket.
pub(super) trait Socket: Send + Sync + 'static {
    /// Its type, and the peer types that may connect.
    const TYPES: (&'static str, &'static [&'static str]);

    /// Registers a peer, and returns its identity; `None` rejects it.
    fn join(&self, ready: &Ready, to: Outbox) -> Option<Bytes>;
    /// Handles a peer's message or command.
    fn hear(&self, peer: &Bytes, said: Said) -> impl Future<Output = ()> + Send;
    /// Removes the peer of the connection with this number.
    fn leave(&self, peer: &Bytes, number: u64);
}

/// Serves a socket until it is dropped.
#[derive(Debug)]
pub(super) struct Serving(JoinHandle<()>);

impl Drop for Serving {
    fn drop(&mut self) {
        self.0.abort();
    }
}

pub(super) fn serve<S: Socket>(listener: Listener, socket: Arc<S>) -> Serving {
    Serving(tokio::spawn(async move {
        let places = Arc::new(Semaphore::new(MAX_PEERS));
        let mut peers = tokio::task::JoinSet::new();
        let mut strangers: VecDeque<(AbortHandle, Arc<AtomicBool>)> = VecDeque::new();
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else {
                return;
            };
            match listener.accept().await {
                Ok(stream) => {
                    strangers.retain(|(task, known)| {
                        !task.is_finished() && !known.load(Ordering::Relaxed)
                    });
                    if strangers.len() >= MAX_STRANGERS
                        && let Some((oldest, _)) = strangers.pop_front()
                    {
                        oldest.abort();
                    }
                    let (socket, known) = (Arc::clone(&socket), Arc::new(AtomicBool::new(false)));
                    let mark = Arc::clone(&known);
                    let task = peers.spawn(async move {
                        if let Err(error) = talk(stream, &*socket, &mark).await {
                            tracing::debug!(%error, "a connection ends");
                        }
                        drop(place);
                    });
                    strangers.push_back((task, known));
                }
                // For example, too many open files: retry in a moment.
                Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
            }
            while peers.try_join_next().is_some() {}
        }
    }))
}

/// Serves one connection.
async fn talk<S: Socket>(
    mut stream: Box<dyn Stream>,
    socket: &S,
    is_known: &AtomicBool,
) -> io::Result<()> {
    let (mut buffer, mut decoder) = (BytesMut::new(), Decoder::default());
    let shaking = shake_hands::<S>(&mut stream, &mut buffer, &mut decoder);
    let Ok(ready) = timeout(HANDSHAKE, shaking).await else {
        return Err(io::ErrorKind::TimedOut.into());
    };
    let ready = ready?;
    is_known.store(true, Ordering::Relaxed);
    let (to, mut inbox) = Outbox::new();
    let (number, own) = (to.number(), to.downgrade());
    let Some(peer) = socket.join(&ready, to) else {
        return Err(invalid("an identity that another has"));
    };
    let guard = Member(socket, &peer, number);
    let (mut incoming, mut outgoing) = tokio::io::split(stream);
    let listening = async {
        loop {
            while let Some(said) = decoder.next(&mut buffer)? {
                match said {
                    Said::Command(name, rest) if &name[..] == b"PING" => {
                        // The reply repeats the bytes after the time to live.
                        let context = rest.get(2..).unwrap_or_default();
                        if let Some(own) = own.upgrade() {
                            own.try_send(command(b"PONG", context));
                        }
                    }
                    said => socket.hear(&peer, said).await,
                }
            }
            read_more(&mut incoming, &mut buffer).await?;
        }
    };
    let sending = async {
        while let Some(waiting) = inbox.recv().await {
            outgoing.write_all(&waiting.frames).await?;
        }
        outgoing.shutdown().await
    };
    let ended = tokio::select! {
        ended = listening => ended,
        ended = sending => ended,
    };
    drop(guard);
    ended
}

/// A registered peer, removed when its connection ends.
struct Member<'a, S: Socket>(&'a S, &'a Bytes, u64);

impl<S: Socket> Drop for Member<'_, S> {
    fn drop(&mut self) {
        self.0.leave(self.1, self.2);
    }
}

async fn shake_hands<S: Socket>(
    stream: &mut Box<dyn Stream>,
    buffer: &mut BytesMut,
    decoder: &mut Decoder,
) -> io::Result<Ready> {
    stream.write_all(&greeting()).await?;
    let mut theirs = [0; GREETING];
    stream.read_exact(&mut theirs).await?;
    check_greeting(&theirs)?;
    let (own, others) = S::TYPES;
    stream.write_all(&ready(own)).await?;
    let said = loop {
        if let Some(said) = decoder.next(buffer)? {
            break said;
        }
        read_more(stream, buffer).await?;
    };
    let ready = read_ready(said)?;
    if !others.iter().any(|other| other.as_bytes() == &ready.socket_type[..]) {
        return Err(invalid("a socket of a type that does not fit"));
    }
    Ok(ready)
}

async fn read_more(from: &mut (impl AsyncRead + Unpin), to: &mut BytesMut) -> io::Result<()> {
    to.reserve(CHUNK);
    match from.read_buf(to).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        _ => Ok(()),
    }
}
