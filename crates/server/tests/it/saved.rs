//! Sessions across restarts, and servers that stop during a run on a WebSocket.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use belljar::Runtime;
use belljar::cluster::{NodeOptions, StoredSessions};
use belljar::store::{self, Blob, Condition, Entry, MemoryStore, Put, Store};
use belljar_server::{App, Key, KeyLimits, Keys, Service, router};
use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio_tungstenite::tungstenite::Message;

use crate::connections::{heard, socket};
use crate::support::{Client, Keyed, engine, everything, start_keyed, start_service};

const GRACE: Duration = Duration::from_secs(1);
/// Time that shutdown may take beyond the grace.
const LAST: Duration = Duration::from_secs(5);

/// A server that restores the directory, and how many sessions it restored.
async fn reopened(dir: &Path) -> (Service, usize) {
    let service = Service::new(engine());
    let count = service.load(dir).await.unwrap();
    (service, count)
}

fn client_of(service: &Service, keys: &Keys, client: &Client) -> Client {
    let app = App::new(service.clone(), keys.clone(), everything());
    Client {
        router: router(app),
        key: client.key.clone(),
    }
}

/// A run on a WebSocket is interrupted after the grace, and all sessions are saved.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_on_a_socket_does_not_keep_sessions_from_being_saved() {
    let dir = tempfile::tempdir().unwrap();
    let Keyed {
        mut server,
        clients,
        keys,
        ..
    } = start_keyed([("a", KeyLimits::default())], everything(), |server| {
        server.grace(GRACE).state(dir.path())
    })
    .await;
    let [a] = &clients;
    let quiet = a.session(&json!({"image": "core"})).await;
    a.run(&quiet, "x = 1").await;
    let busy = a.session(&json!({"image": "core"})).await;
    // First, because a WebSocket that answers no ping while an image is baked is closed.
    let (status, kernel) = server.ask(a, "POST", "/api/kernels", &json!({})).await;
    assert_eq!(status, 201, "{kernel}");
    let kernel = kernel["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/sessions/{busy}/terminal");
    let mut terminal = socket(&server, a, &path).await.unwrap();
    let mut idle = socket(&server, a, &path).await.unwrap();
    let code = "y = 2\nprint('go')\nwhile True: pass";
    let run = json!({"id": 1, "type": "run", "code": code, "timeout": 300}).to_string();
    terminal.send(Message::text(run)).await.unwrap();
    heard(&mut terminal, "stdout").await;
    let mut notebook =
        socket(&server, a, &format!("/api/kernels/{kernel}/channels")).await.unwrap();
    let execute = json!({
        "channel": "shell", "content": {"code": "z = 3\nwhile True: pass", "silent": false},
        "header": {"msg_id": "1", "msg_type": "execute_request", "session": "s", "version": "5.3"},
        "parent_header": {}, "metadata": {},
    });
    notebook.send(Message::text(execute.to_string())).await.unwrap();
    while server.service.under_way() < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let since = Instant::now();
    server.stop();
    // An idle WebSocket is closed at once.
    let closed = async { while matches!(idle.next().await, Some(Ok(_))) {} };
    closed.await;
    // The waiting client receives the outcome.
    let outcome = heard(&mut terminal, "outcome").await;
    assert_eq!(outcome["error_detail"]["kind"], "interrupted", "{outcome}");
    (&mut server.running).await.unwrap();
    let took = since.elapsed();
    assert!(took < GRACE + LAST, "{took:?}");
    println!("the server ended after {took:?}");
    let (service, count) = reopened(dir.path()).await;
    assert_eq!(count, 3);
    let again = client_of(&service, &keys, a);
    for (id, code, value) in
        [(&quiet, "print(x)", "1\n"), (&busy, "print(y)", "2\n"), (&kernel, "print(z)", "3\n")]
    {
        assert_eq!(again.run(id, code).await["stdout"], value, "{id}");
    }
    service.close_all();
}

/// A kernel continues after a restart under its id.
#[tokio::test(flavor = "multi_thread")]
async fn a_kernel_is_found_again() {
    let dir = tempfile::tempdir().unwrap();
    let (key, text) = Key::generate("a", KeyLimits::default()).unwrap();
    let start = async || {
        let keys = Keys::of(vec![key.clone()]);
        crate::support::start_as(keys, &text, |server| server.grace(GRACE).state(dir.path())).await
    };
    let (mut server, a) = start().await;
    let (_, kernel) = server.ask(&a, "POST", "/api/kernels", &json!({})).await;
    let path = format!("/api/kernels/{}", kernel["id"].as_str().unwrap());
    server.stop();
    (&mut server.running).await.unwrap();
    let (server, a) = start().await;
    let (_, found) = server.ask(&a, "GET", &path, &Value::Null).await;
    assert_eq!(found["id"], kernel["id"], "{found}");
    let (_, listed) = server.ask(&a, "GET", "/api/kernels", &Value::Null).await;
    assert_eq!(listed.as_array().unwrap().len(), 1);
    assert_eq!(server.ask(&a, "DELETE", &path, &Value::Null).await.0, 204);
    let (_, left) = server.ask(&a, "GET", "/v1/sessions", &Value::Null).await;
    assert_eq!(left["sessions"], json!([]));
}

/// A session that cannot be restored stays for later starts.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_cannot_be_restored_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let Keyed {
        mut server,
        clients,
        keys,
        ..
    } = start_keyed([("a", KeyLimits::default())], everything(), |server| server.state(dir.path()))
        .await;
    let [a] = &clients;
    let (one, two) =
        (a.session(&json!({"image": "core"})).await, a.session(&json!({"image": "core"})).await);
    a.run(&one, "x = 1").await;
    server.stop();
    (&mut server.running).await.unwrap();
    let file = dir.path().join(format!("{one}.belljar"));
    let content = std::fs::read(&file).unwrap();
    std::fs::write(&file, "damaged").unwrap();
    for _ in 0..2 {
        let (service, count) = reopened(dir.path()).await;
        assert_eq!(count, 1);
        let again = client_of(&service, &keys, a);
        assert_eq!(again.get(&format!("/v1/sessions/{two}")).await.status, 200);
        service.save(dir.path(), Instant::now() + Duration::from_secs(30)).await.unwrap();
        service.close_all();
    }
    std::fs::write(&file, content).unwrap();
    let (service, count) = reopened(dir.path()).await;
    assert_eq!(count, 2);
    let again = client_of(&service, &keys, a);
    assert_eq!(again.run(&one, "print(x)").await["stdout"], "1\n");
    service.close_all();
}

/// A store that stops responding.
#[derive(Debug, Default)]
struct Silent {
    store: MemoryStore,
    is_silent: AtomicBool,
}

impl Silent {
    async fn speak(&self) {
        if self.is_silent.load(Ordering::Acquire) {
            std::future::pending::<()>().await;
        }
    }
}

impl Store for Silent {
    fn get<'a>(&'a self, key: &'a str, max: u64) -> store::Answer<'a, Option<Blob>> {
        Box::pin(async move {
            self.speak().await;
            self.store.get(key, max).await
        })
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        bytes: Bytes,
        condition: Condition,
    ) -> store::Answer<'a, Put> {
        Box::pin(async move {
            self.speak().await;
            self.store.put(key, bytes, condition).await
        })
    }

    fn list<'a>(&'a self, folder: &'a str) -> store::Answer<'a, Vec<Entry>> {
        Box::pin(async move {
            self.speak().await;
            self.store.list(folder).await
        })
    }

    fn delete<'a>(&'a self, key: &'a str) -> store::Answer<'a, ()> {
        Box::pin(async move {
            self.speak().await;
            self.store.delete(key).await
        })
    }
}

fn on(store: &Arc<Silent>) -> Service {
    let options = NodeOptions::default().lease(Duration::from_secs(1));
    let store = Arc::<Silent>::clone(store);
    // As in a separate process.
    let runtime = Runtime::builder().environment().build().unwrap();
    let sessions = StoredSessions::new(runtime.clone(), store, options).unwrap();
    Service::builder(runtime).stored(sessions).build()
}

/// With a store, shutdown is as fast as with a directory, even if the store stops responding.
/// Another server then has every session, either as the interrupted run left it or as it was
/// before.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_with_a_store_ends_in_time() {
    for is_silent in [false, true] {
        let store = Arc::new(Silent::default());
        let Keyed {
            mut server,
            clients,
            keys,
            ..
        } = start_service(on(&store), [("a", KeyLimits::default())], everything(), |server| {
            server.grace(GRACE)
        })
        .await;
        let [a] = &clients;
        let quiet = a.session(&json!({"image": "core"})).await;
        a.run(&quiet, "x = 1").await;
        let busy = a.session(&json!({"image": "core"})).await;
        a.run(&busy, "y = 1").await;
        let path = format!("/v1/sessions/{busy}/terminal");
        let mut terminal = socket(&server, a, &path).await.unwrap();
        let code = "y = 2\nprint('go')\nwhile True: pass";
        let run = json!({"id": 1, "type": "run", "code": code}).to_string();
        terminal.send(Message::text(run)).await.unwrap();
        heard(&mut terminal, "stdout").await;
        // Earlier runs are in the store.
        tokio::time::sleep(Duration::from_millis(500)).await;
        store.is_silent.store(is_silent, Ordering::Release);
        let since = Instant::now();
        server.stop();
        (&mut server.running).await.unwrap();
        let took = since.elapsed();
        println!("with a store that is silent: {is_silent}, the server ended after {took:?}");
        assert!(took < GRACE + LAST + Duration::from_millis(500), "{took:?}");

        store.is_silent.store(false, Ordering::Release);
        let service = on(&store);
        let again = client_of(&service, &keys, a);
        let value = if is_silent { "1\n" } else { "2\n" };
        for (id, code, value) in [(&quiet, "print(x)", "1\n"), (&busy, "print(y)", value)] {
            assert_eq!(again.run(id, code).await["stdout"], value, "{id}");
        }
        service.close_all();
    }
}

/// Ids of the records in a directory, and whether each has its state.
fn records(dir: &Path) -> Vec<(String, bool)> {
    let found = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    let records = found.filter(|path| path.extension().is_some_and(|kind| kind == "session"));
    let named = |path: std::path::PathBuf| {
        let id = path.file_stem().unwrap().to_str().unwrap().to_owned();
        (id, path.with_extension("belljar").exists())
    };
    records.map(named).collect()
}

/// Wherever saving is interrupted, each record has its state, and the next server restores it.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_named_is_there_wherever_saving_ends() {
    let dir = tempfile::tempdir().unwrap();
    let keys = Keys::none();
    let mut service = Service::new(engine());
    let app = App::new(service.clone(), keys.clone(), everything());
    let client = Client {
        router: router(app),
        key: None,
    };
    for n in 0..12 {
        let id = client.session(&json!({"image": "core"})).await;
        client.run(&id, &format!("x = {n}")).await;
    }
    let mut counts = Vec::new();
    for milliseconds in [0, 5, 20, 50, 100, 200, 400, 30_000] {
        let end = Instant::now() + Duration::from_millis(milliseconds);
        let written = service.save(dir.path(), end).await.unwrap();
        let named = records(dir.path());
        assert_eq!(named.len(), written, "{named:?}");
        assert!(named.iter().all(|(_, is_there)| *is_there), "{named:?}");
        counts.push(written);
        // As after a crash: a state without a record, and a truncated record.
        std::fs::write(dir.path().join("stray.belljar"), "half").unwrap();
        std::fs::write(dir.path().join(".tmpx"), "[{").unwrap();
        if milliseconds < 30_000 {
            for (id, _) in &named {
                std::fs::remove_file(dir.path().join(id).with_added_extension("session")).unwrap();
            }
            continue;
        }
        service.close_all();
        let (again, count) = reopened(dir.path()).await;
        assert_eq!(count, 12);
        assert_eq!(records(dir.path()), []);
        service = again;
    }
    println!("written until then: {counts:?}");
    assert_eq!(counts.last(), Some(&12));
    service.close_all();
}

/// A record without a state is logged and removed, and delays nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_without_its_state_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let service = Service::new(engine());
    let app = App::new(service.clone(), Keys::none(), everything());
    let client = Client {
        router: router(app),
        key: None,
    };
    let (one, two) = (
        client.session(&json!({"image": "core"})).await,
        client.session(&json!({"image": "core"})).await,
    );
    client.run(&two, "x = 2").await;
    service.save(dir.path(), Instant::now() + Duration::from_secs(30)).await.unwrap();
    service.close_all();
    std::fs::remove_file(dir.path().join(format!("{one}.belljar"))).unwrap();
    // Earlier versions had a single list.
    let list: Vec<Value> = records(dir.path())
        .into_iter()
        .map(|(id, _)| {
            let record = dir.path().join(format!("{id}.session"));
            let text = std::fs::read(&record).unwrap();
            std::fs::remove_file(record).unwrap();
            serde_json::from_slice(&text).unwrap()
        })
        .collect();
    assert_eq!(list.len(), 2);
    std::fs::write(dir.path().join("sessions.json"), Value::from(list).to_string()).unwrap();
    let (service, count) = reopened(dir.path()).await;
    assert_eq!(count, 1);
    assert_eq!(
        client_of(&service, &Keys::none(), &client).run(&two, "print(x)").await["stdout"],
        "2\n"
    );
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    service.close_all();
}

/// A server that stops while restoring sessions loses none.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_on_the_disk_until_all_are_restored() {
    const COUNT: usize = 40;
    let dir = tempfile::tempdir().unwrap();
    let service = Service::new(engine());
    let client = client_of(&service, &Keys::none(), &crate::support::open());
    for _ in 0..COUNT {
        client.session(&json!({"image": "core"})).await;
    }
    service.save(dir.path(), Instant::now() + Duration::from_secs(30)).await.unwrap();
    service.close_all();

    let ending = Service::new(Runtime::builder().environment().build().unwrap());
    let mut loading = Box::pin(ending.load(dir.path()));
    std::future::poll_fn(|context| {
        assert!(loading.as_mut().poll(context).is_pending(), "it was to end before");
        match ending.runtime().sessions().list().len() {
            0..3 => Poll::Pending,
            _ => Poll::Ready(()),
        }
    })
    .await;
    drop(loading);
    assert_eq!(records(dir.path()).len(), COUNT);
    assert!(records(dir.path()).iter().all(|(_, is_there)| *is_there));
    ending.close_all();
    let (service, count) = reopened(dir.path()).await;
    assert_eq!(count, COUNT);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    service.close_all();
}

/// A record emptied or truncated by a power failure is removed with its state. A record of another
/// version stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_was_not_written_whole_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    for (id, record) in [("a", ""), ("b", "{\"id\": \"b"), ("c", "\0\0\0"), ("d", "{\"new\": 1}")] {
        std::fs::write(dir.path().join(format!("{id}.session")), record).unwrap();
        std::fs::write(dir.path().join(format!("{id}.belljar")), "state").unwrap();
    }
    let (_, count) = reopened(dir.path()).await;
    assert_eq!(count, 0);
    assert_eq!(records(dir.path()), [("d".to_owned(), true)]);
}
