//! A server from its start to its end.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::http::app::App;
use crate::http::listen::{self, Listener};
use crate::routes::router;

/// Time that interrupted runs have to end, their grace in the engine included.
const LAST_RUNS: Duration = Duration::from_secs(2);

/// A server that listens, and answers once it is [run](Self::run).
pub struct Server {
    app: App,
    listener: Listener,
    address: SocketAddr,
}

impl Server {
    /// Listens on an address; with port 0 on a free port.
    ///
    /// # Errors
    ///
    /// When the address cannot be had.
    pub async fn bind(app: App, address: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self {
            app,
            listener: Listener::Tcp(listener),
            address,
        })
    }

    /// Where it is reached.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Answers until `stop` is ready. Then it takes no more connections and no more runs, and lets those
    /// that are under way end within `grace`; what still runs then is interrupted. All sessions are closed
    /// at the end.
    pub async fn run(self, stop: impl Future<Output = ()>, grace: Duration) {
        let service = self.app.service().clone();
        let stopping = CancellationToken::new();
        let mut serving =
            tokio::spawn(listen::serve(self.listener, router(self.app), stopping.clone()));
        tokio::select! {
            () = stop => {}
            _ = &mut serving => {}
        }
        stopping.cancel();
        service.stop();
        if tokio::time::timeout(grace, &mut serving).await.is_err() {
            service.interrupt_all();
            let _ = tokio::time::timeout(LAST_RUNS, &mut serving).await;
            serving.abort();
        }
        service.close_all();
    }
}
