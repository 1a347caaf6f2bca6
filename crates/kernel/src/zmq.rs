//! A kernel on the five sockets of a connection file.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_recursion::async_recursion as boxed;
use belljar::Request;
use bytes::Bytes;
use serde_json::{Map, json};
use tokio::time::Instant;

use crate::backend::{Backend, Doing, Outlet};
use crate::connection::{ConnectionError, ConnectionFile};
use crate::kernel::Kernel;
use crate::message::{Channel, Message, Outgoing, unique};
use crate::wire::Signer;
use crate::zmtp::{Listener, Publisher, Router, Sender};

/// Time limit for sending the last messages.
const LINGER: Duration = Duration::from_millis(100);

/// Time for clients to reconnect after a restart: libzmq retries each socket every 100 to 200 ms.
const RECONNECTING: Duration = Duration::from_millis(300);
/// How long the kernel then waits for a subscriber to its output.
const UNHEARD: Duration = Duration::from_millis(700);

/// A kernel that clients can connect to.
pub struct Serving {
    kernel: Kernel,
    sockets: Arc<Sockets>,
    tasks: tokio::task::JoinSet<()>,
}

/// The sending ends of the sockets.
struct Sockets {
    signer: Signer,
    shell: Sender,
    control: Sender,
    stdin: Sender,
    iopub: Publisher,
}

/// Opens the sockets of a connection file, and starts a kernel on them. Ports chosen by the system
/// are written back to the file.
///
/// # Errors
///
/// When the file is invalid, or a socket cannot be opened.
pub async fn serve(
    path: &Path,
    backend: impl Backend,
    request: Request,
) -> Result<Serving, ConnectionError> {
    let mut file = ConnectionFile::read(path)?;
    let asked = file.clone();
    let mut listeners = Vec::new();
    for (channel, port) in ports(&mut file) {
        let listener = listen(&asked, channel, *port).await?;
        *port = listener.port().unwrap_or(*port);
        listeners.push(listener);
    }
    if file != asked {
        file.write(path)?;
    }
    let Ok([shell, control, stdin, iopub, heartbeat]) = <[Listener; 5]>::try_from(listeners) else {
        unreachable!("there are five ports");
    };
    let signer = Signer::new(&file.key);
    let routers = [shell, control, stdin].map(Router::new);
    let [shell, control, stdin] = [0, 1, 2].map(|index: usize| routers[index].sender());
    let sockets = Arc::new(Sockets {
        iopub: publisher(iopub, signer.clone()),
        signer,
        shell,
        control,
        stdin,
    });
    let kernel = Kernel::start(backend, Carrier(Arc::clone(&sockets)), request);
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(echo(Router::new(heartbeat)));
    let channels = [Channel::Shell, Channel::Control, Channel::Stdin];
    let opened = Instant::now();
    for (channel, router) in channels.into_iter().zip(routers) {
        tasks.spawn(hear(channel, router, Arc::clone(&sockets), kernel.clone(), opened));
    }
    Ok(Serving {
        kernel,
        sockets,
        tasks,
    })
}

fn ports(file: &mut ConnectionFile) -> [(&'static str, &mut u16); 5] {
    [
        ("shell", &mut file.shell_port),
        ("control", &mut file.control_port),
        ("stdin", &mut file.stdin_port),
        ("iopub", &mut file.iopub_port),
        ("heartbeat", &mut file.hb_port),
    ]
}

#[boxed]
async fn listen(
    file: &ConnectionFile,
    channel: &'static str,
    port: u16,
) -> Result<Listener, ConnectionError> {
    let (address, listening) = match file.transport.as_str() {
        #[cfg(unix)]
        "ipc" => {
            let address = format!("{}-{port}", file.ip);
            let listening = Listener::unix(Path::new(&address));
            (address, listening)
        }
        _ => (format!("{}:{port}", file.ip), Listener::tcp(&file.ip, port).await),
    };
    listening.map_err(|source| ConnectionError::Listen {
        channel,
        address,
        source,
    })
}

/// A publisher that confirms subscriptions.
fn publisher(listener: Listener, signer: Signer) -> Publisher {
    let session = unique();
    Publisher::new(listener, move |topic| {
        let topic_text = String::from_utf8_lossy(topic);
        let content = Map::from_iter([("subscription".to_owned(), json!(topic_text))]);
        let message = Message::new("iopub_welcome", &session, &Map::new(), content);
        let mut parts = vec![Bytes::copy_from_slice(topic)];
        parts.extend(signer.write(&message));
        parts
    })
}

/// Passes received messages to the kernel.
#[boxed]
async fn hear(
    channel: Channel,
    mut router: Router,
    sockets: Arc<Sockets>,
    kernel: Kernel,
    opened: Instant,
) {
    let mut waits = channel == Channel::Shell;
    while let Some((peer, parts)) = router.next().await {
        if std::mem::take(&mut waits) {
            sockets.heard(opened).await;
        }
        match sockets.signer.read(&parts) {
            Ok(message) => kernel.deliver(channel, peer, message, || Some(Arc::new(()))).await,
            Err(error) => {
                tracing::warn!(channel = channel.as_str(), %error, "a message is dropped");
            }
        }
    }
}

impl Sockets {
    /// Waits for subscribers right after the sockets were opened. A client's request may arrive
    /// before its subscription, which uses another connection; the output would be lost.
    async fn heard(&self, opened: Instant) {
        tokio::time::sleep_until(opened + RECONNECTING).await;
        while !self.iopub.has_subscribers() && opened.elapsed() < RECONNECTING + UNHEARD {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// Echoes received messages.
#[boxed]
async fn echo(mut router: Router) {
    let sender = router.sender();
    while let Some((peer, parts)) = router.next().await {
        sender.try_send(&peer, &parts);
    }
}

struct Carrier(Arc<Sockets>);

impl Outlet for Carrier {
    fn send(&self, outgoing: Outgoing) -> Doing<'_, ()> {
        let Outgoing {
            channel,
            to,
            message,
        } = outgoing;
        Box::pin(async move {
            let mut parts = self.0.signer.write(&message);
            let sender = match channel {
                Channel::Shell => &self.0.shell,
                Channel::Control => &self.0.control,
                Channel::Stdin => &self.0.stdin,
                Channel::Iopub => {
                    // Subscribers can select messages by type.
                    parts.insert(0, Bytes::copy_from_slice(message.kind().as_bytes()));
                    return self.0.iopub.publish(&parts).await;
                }
            };
            if let Some(peer) = to {
                sender.send(&peer, &parts).await;
            }
        })
    }
}

impl Serving {
    /// The kernel.
    #[must_use]
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    /// Closes the kernel, sends its last messages, and closes the sockets.
    pub async fn close(mut self) {
        self.kernel.close().await;
        tokio::time::sleep(LINGER).await;
        self.tasks.abort_all();
        drop(self.sockets);
    }
}
