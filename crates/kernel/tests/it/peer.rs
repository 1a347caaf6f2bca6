//! A kernel on sockets, with a client that controls every byte.

use std::sync::OnceLock;
use std::time::Duration;

use belljar::{Request, Runtime, SessionOptions};
use belljar_kernel::{Backend, ConnectionFile, Doing, Failure, Guest, zmq};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Longer than anything in these tests takes.
pub const WAIT: Duration = Duration::from_mins(1);

/// The engine shared by all tests.
pub fn runtime() -> Runtime {
    static RUNTIME: OnceLock<Runtime> = OnceLock::new();
    RUNTIME.get_or_init(|| Runtime::builder().environment().environment().build().unwrap()).clone()
}

pub struct Sessions;

impl Backend for Sessions {
    fn open(&self) -> Doing<'_, Result<Box<dyn Guest>, Failure>> {
        Box::pin(async {
            let options = SessionOptions::new().image("core");
            Ok(Box::new(runtime().session(options).await?) as Box<dyn Guest>)
        })
    }
}

/// A kernel on the sockets of a connection file without a key.
pub struct Started {
    pub file: ConnectionFile,
    serving: zmq::Serving,
    _directory: TempDir,
}

impl Started {
    pub async fn new(key: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("connection.json");
        std::fs::write(&path, json!({"key": key}).to_string()).unwrap();
        let serving = zmq::serve(&path, Sessions, Request::default()).await.unwrap();
        Self {
            file: ConnectionFile::read(&path).unwrap(),
            serving,
            _directory: directory,
        }
    }

    pub async fn connect(&self, port: u16) -> TcpStream {
        TcpStream::connect(("127.0.0.1", port)).await.unwrap()
    }

    /// Whether it replies to a well-behaved client.
    pub async fn answers(&self) -> bool {
        let mut peer = Peer::new(self.connect(self.file.shell_port).await, "DEALER", b"").await;
        peer.ask("kernel_info_request", &json!({})).await;
        let reply = timeout(WAIT, peer.message()).await.expect("an answer");
        json_of(&reply, 2)["msg_type"] == "kernel_info_reply"
    }

    pub async fn close(self) {
        self.serving.close().await;
    }
}

/// The JSON of a part of a message.
pub fn json_of(parts: &[Vec<u8>], index: usize) -> Value {
    serde_json::from_slice(&parts[index]).unwrap()
}

/// One end of a connection after the handshake.
pub struct Peer(pub TcpStream);

pub fn greeting() -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[0] = 0xff;
    bytes[9] = 0x7f;
    bytes[10] = 3;
    bytes[12..16].copy_from_slice(b"NULL");
    bytes
}

pub fn ready(socket_type: &str, identity: &[u8]) -> Vec<u8> {
    let mut body = b"\x05READY".to_vec();
    for (name, value) in [("Socket-Type", socket_type.as_bytes()), ("Identity", identity)] {
        body.push(name.len() as u8);
        body.extend(name.as_bytes());
        body.extend((value.len() as u32).to_be_bytes());
        body.extend(value);
    }
    frame(4, &body)
}

pub fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![flags | 2];
    bytes.extend((body.len() as u64).to_be_bytes());
    bytes.extend(body);
    bytes
}

impl Peer {
    pub async fn new(mut stream: TcpStream, socket_type: &str, identity: &[u8]) -> Self {
        stream.write_all(&greeting()).await.unwrap();
        stream.write_all(&ready(socket_type, identity)).await.unwrap();
        let mut theirs = [0; 64];
        stream.read_exact(&mut theirs).await.unwrap();
        assert_eq!(theirs[10], 3);
        let mut peer = Self(stream);
        let (flags, body) = peer.frame().await.unwrap();
        assert_eq!((flags, &body[..6]), (4, &b"\x05READY"[..]));
        peer
    }

    /// The next frame: its flags without the length flag, and its body.
    async fn frame(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let flags = self.0.read_u8().await?;
        let length = match flags & 2 {
            0 => u64::from(self.0.read_u8().await?),
            _ => self.0.read_u64().await?,
        };
        let mut body = vec![0; usize::try_from(length).unwrap()];
        self.0.read_exact(&mut body).await?;
        Ok((flags & !2, body))
    }

    /// The next message.
    pub async fn message(&mut self) -> Vec<Vec<u8>> {
        let mut parts = Vec::new();
        loop {
            let (flags, body) = self.frame().await.unwrap();
            parts.push(body);
            if flags & 1 == 0 {
                return parts;
            }
        }
    }

    pub async fn send(&mut self, parts: &[&[u8]]) {
        for (index, part) in parts.iter().enumerate() {
            let more = u8::from(index + 1 < parts.len());
            self.0.write_all(&frame(more, part)).await.unwrap();
        }
    }

    /// Sends an unsigned request.
    pub async fn ask(&mut self, kind: &str, content: &Value) {
        let header = json!({"msg_id": kind, "msg_type": kind, "session": "s"}).to_string();
        let content = content.to_string();
        self.send(&[b"<IDS|MSG>", b"", header.as_bytes(), b"{}", b"{}", content.as_bytes()]).await;
    }

    /// Whether the kernel closes the connection.
    pub async fn is_ended(&mut self) -> bool {
        let mut rest = Vec::new();
        timeout(WAIT, self.0.read_to_end(&mut rest)).await.is_ok()
    }
}
