//! An application on a shared engine, and its clients.

use std::net::SocketAddr;
use std::sync::OnceLock;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use belljar::Runtime;
use belljar_server::{App, Faces, Key, KeyLimits, Keys, Server, Service, Settings, router};
use serde_json::Value;
use tower::ServiceExt;

/// The engine shared by all tests of this process.
pub fn engine() -> Runtime {
    static ENGINE: OnceLock<Runtime> = OnceLock::new();
    ENGINE.get_or_init(|| Runtime::builder().environment().build().unwrap()).clone()
}

/// A server with all interfaces.
pub fn everything() -> Settings {
    let mut settings = Settings::default();
    settings.faces = Faces::all();
    settings
}

/// An application that requires no key.
pub fn open() -> Client {
    let app = App::new(Service::new(engine()), Keys::none(), Settings::default());
    Client {
        router: router(app),
        key: None,
    }
}

/// An application, and a client for each of these keys.
pub fn with_keys<const N: usize>(keys: [(&str, KeyLimits); N]) -> [Client; N] {
    let made = keys.map(|(name, limits)| {
        let (mut key, text) = Key::generate(name, limits).unwrap();
        // They may read metrics.
        key.is_operator = true;
        (key, text)
    });
    let known = made.iter().map(|(key, _)| key.clone()).collect();
    let app = App::new(Service::new(engine()), Keys::of(known), everything());
    let router = router(app);
    made.map(|(_, text)| Client {
        router: router.clone(),
        key: Some(text),
    })
}

/// A client of an application without a connection.
#[derive(Clone)]
pub struct Client {
    pub router: Router,
    pub key: Option<String>,
}

/// A complete response.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
}

impl Client {
    pub async fn send(&self, request: Request<Body>) -> Answer {
        let mut request = request;
        if let Some(key) = &self.key {
            let value = format!("Bearer {key}").parse().unwrap();
            request.headers_mut().insert("authorization", value);
        }
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = axum::body::to_bytes(body, usize::MAX).await.unwrap().to_vec();
        Answer {
            status: head.status,
            headers: head.headers,
            body,
        }
    }

    pub async fn ask(&self, method: &str, path: &str, headers: &[(&str, &str)]) -> Answer {
        let request = Request::builder().method(method).uri(path);
        let request =
            headers.iter().fold(request, |request, (name, value)| request.header(*name, *value));
        self.send(request.body(Body::empty()).unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.ask("GET", path, &[]).await
    }

    pub async fn put(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.send(Request::put(path).body(body.into()).unwrap()).await
    }

    pub async fn json(&self, method: &str, path: &str, body: &Value) -> Answer {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", "application/json")
            .body(body.to_string().into());
        self.send(request.unwrap()).await
    }

    pub async fn post(&self, path: &str, body: &Value) -> Answer {
        self.json("POST", path, body).await
    }

    /// Creates a session and returns its id.
    pub async fn session(&self, asked: &Value) -> String {
        let answer = self.post("/v1/sessions", asked).await;
        assert_eq!(answer.status, 201, "{answer}");
        answer.json()["id"].as_str().unwrap().to_owned()
    }

    /// Runs code in a session.
    pub async fn run(&self, session: &str, code: &str) -> Value {
        let path = format!("/v1/sessions/{session}/runs");
        let answer = self.post(&path, &serde_json::json!({"code": code})).await;
        assert_eq!(answer.status, 200, "{answer}");
        answer.json()
    }
}

impl Answer {
    pub fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("{self}"))
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The code of the problem in the response.
    pub fn problem(&self) -> String {
        assert_eq!(self.headers["content-type"], "application/problem+json", "{self}");
        let json = self.json();
        assert_eq!(json["status"], self.status.as_u16());
        json["code"].as_str().unwrap().to_owned()
    }
}

impl std::fmt::Display for Answer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.status, String::from_utf8_lossy(&self.body))
    }
}

/// The events of a stream with their names.
pub fn events(text: &str) -> Vec<(String, Value)> {
    let events = text.split("\n\n").filter(|event| !event.trim().is_empty());
    let read = |event: &str| {
        let field = |name| event.lines().find_map(|line| line.strip_prefix(name));
        let data = field("data: ").unwrap_or_else(|| panic!("{event}"));
        (field("event: ").unwrap().to_owned(), serde_json::from_str(data).unwrap())
    };
    events.map(read).collect()
}

/// Runs `body` in a separate process, where nothing else uses memory or threads.
#[track_caller]
pub fn alone(name: &str, body: impl FnOnce()) {
    const MARK: &str = "BELLJAR_TEST_ALONE";
    if std::env::var(MARK).is_ok_and(|marked| marked == name) {
        return body();
    }
    // Compile first, so that the other process need not.
    engine();
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture", "--test-threads", "1"])
        .env(MARK, name)
        .output()
        .unwrap();
    let (stdout, stderr) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let has_passed = output.status.success() && stdout.contains("1 passed");
    // Indented, so that nothing takes the other process's report for one of this process.
    let shown = format!("\n{stdout}{stderr}").replace('\n', "\n    ");
    assert!(has_passed, "{name}: {}{shown}", output.status);
}

/// A tokio runtime like a server's.
pub fn reactor() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap()
}

/// A listening server with keys.
pub struct Keyed<const N: usize> {
    pub server: Started,
    /// A client for each key.
    pub clients: [Client; N],
    pub keys: Keys,
    pub made: [Key; N],
}

/// Starts a server with a key for each account. `change` adjusts its settings.
pub async fn start_keyed<const N: usize>(
    accounts: [(&str, KeyLimits); N],
    settings: Settings,
    change: impl FnOnce(Server) -> Server,
) -> Keyed<N> {
    start_service(Service::new(engine()), accounts, settings, change).await
}

/// The same with a given service.
pub async fn start_service<const N: usize>(
    service: Service,
    accounts: [(&str, KeyLimits); N],
    settings: Settings,
    change: impl FnOnce(Server) -> Server,
) -> Keyed<N> {
    let generated = accounts.map(|(name, limits)| Key::generate(name, limits).unwrap());
    let made = generated.clone().map(|(key, _)| key);
    let keys = Keys::of(made.to_vec());
    let server = listen(service, keys.clone(), settings, change).await;
    let clients = generated.map(|(_, text)| Client {
        router: server.client.router.clone(),
        key: Some(text),
    });
    Keyed {
        server,
        clients,
        keys,
        made,
    }
}

/// Starts a server with these keys, and returns a client with `key`.
pub async fn start_as(
    keys: Keys,
    key: &str,
    change: impl FnOnce(Server) -> Server,
) -> (Started, Client) {
    let server = listen(Service::new(engine()), keys, Settings::default(), change).await;
    let client = Client {
        router: server.client.router.clone(),
        key: Some(key.to_owned()),
    };
    (server, client)
}

/// A listening server, stopped on drop.
pub struct Started {
    pub address: SocketAddr,
    /// A client of the same application without a connection.
    pub client: Client,
    pub service: Service,
    stop: Option<tokio::sync::oneshot::Sender<()>>,
    pub running: tokio::task::JoinHandle<()>,
}

impl Started {
    /// Sends a request over a connection.
    pub async fn ask(
        &self,
        client: &Client,
        method: &str,
        path: &str,
        body: &Value,
    ) -> (u16, Value) {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let body = body.to_string();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\
             Authorization: Bearer {}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{body}",
            client.key.as_deref().unwrap_or_default(),
            body.len()
        );
        let mut stream = tokio::net::TcpStream::connect(self.address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        (status, serde_json::from_str(body).unwrap_or_default())
    }

    /// Stops the server.
    pub fn stop(&mut self) {
        drop(self.stop.take());
    }
}

/// Starts a server without keys on a free port.
pub async fn start() -> Started {
    start_with(Settings::default()).await
}

/// The same with these settings.
pub async fn start_with(settings: Settings) -> Started {
    listen(Service::new(engine()), Keys::none(), settings, |server| server).await
}

async fn listen(
    service: Service,
    keys: Keys,
    settings: Settings,
    change: impl FnOnce(Server) -> Server,
) -> Started {
    let app = App::new(service.clone(), keys, settings);
    let client = Client {
        router: router(app.clone()),
        key: None,
    };
    let address = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = Server::bind(app, address).await.unwrap().grace(Duration::from_secs(5));
    let server = change(server);
    let url = server.url();
    let host = url.strip_prefix("http://").unwrap().split('/').next().unwrap();
    let address = host.parse().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let until = async { drop(stopped.await) };
    let running = tokio::spawn(async { server.run(until).await.unwrap() });
    Started {
        address,
        client,
        service,
        stop: Some(stop),
        running,
    }
}
