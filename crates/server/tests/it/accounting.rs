//! All guest work counts against the key that caused it, and is scheduled fairly.

use std::sync::Arc;
use std::time::Duration;

use axum::http::{Request, StatusCode};
use belljar::Runtime;
use belljar::cluster::{NodeOptions, StoredSessions};
use belljar::store::{self, Blob, Condition, Entry, MemoryStore, Put, Store};
use belljar_server::{App, Key, KeyLimits, Keys, Service, Settings, router};
use bytes::Bytes;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::support::{Answer, Client, engine, with_keys};

fn limits(json: Value) -> KeyLimits {
    serde_json::from_value(json).unwrap()
}

/// Guest work other than runs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    Start,
    Evaluate,
    Get,
    Set,
    Complete,
    Inspect,
    IsComplete,
}

const EVERY: [Work; 7] = [
    Work::Start,
    Work::Evaluate,
    Work::Get,
    Work::Set,
    Work::Complete,
    Work::Inspect,
    Work::IsComplete,
];

impl Work {
    async fn ask(self, client: &Client, id: &str) -> Answer {
        let path = |what: &str| format!("/v1/sessions/{id}/{what}");
        let at = json!({"code": "le", "cursor": 2});
        match self {
            Self::Start => {
                client.post("/v1/sessions", &json!({"code": "x = 1", "image": "core"})).await
            }
            Self::Evaluate => {
                let asked = json!({"expressions": {"a": "sum(range(10 ** 6))"}});
                client.post(&path("evaluate"), &asked).await
            }
            Self::Get => client.get(&path("variables/__name__")).await,
            Self::Set => client.json("PUT", &path("variables/x"), &json!(1)).await,
            Self::Complete => client.post(&path("complete"), &at).await,
            Self::Inspect => client.post(&path("inspect"), &at).await,
            Self::IsComplete => client.post(&path("is_complete"), &json!({"code": "1"})).await,
        }
    }

    /// Its label in the metrics.
    fn figure(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Evaluate => "evaluate",
            Self::Get | Self::Set => "variable",
            Self::Complete | Self::Inspect | Self::IsComplete => "question",
        }
    }

    fn is_run(self) -> bool {
        self.figure() != "question"
    }
}

/// A metric, which is 0 before its first increment.
async fn figure(client: &Client, name: &str) -> u64 {
    let answer = client.get("/metrics").await;
    let line = answer.text().lines().find_map(|line| line.strip_prefix(name));
    line.map_or(0, |value| value.trim().parse().unwrap())
}

/// A session whose creation counts no work.
async fn idle_session(client: &Client) -> String {
    client.session(&json!({"image": "core"})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn code_is_a_run_of_the_minute_wherever_it_is_given() {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let clients = with_keys(names.map(|name| (name, limits(json!({"runs_per_minute": 1})))));
    for (work, client) in EVERY.into_iter().zip(clients) {
        let id = idle_session(&client).await;
        let counted = format!("belljar_other_work_total{{what=\"{}\"}}", work.figure());
        let before = figure(&client, &counted).await;
        let fuel = figure(&client, "belljar_fuel_total").await;
        assert!(work.ask(&client, &id).await.status.is_success(), "{work:?}");
        assert_eq!(figure(&client, &counted).await, before + 1, "{work:?}");
        assert!(figure(&client, "belljar_fuel_total").await > fuel, "{work:?}");
        let again = work.ask(&client, &id).await;
        let run = client.post("/v1/runs", &json!({"code": "1"})).await;
        if work.is_run() {
            assert_eq!((again.status.as_u16(), again.problem().as_str()), (429, "limit"));
            assert_eq!(run.status, 429, "{work:?}");
        } else {
            // Queries at each keystroke do not count as runs.
            assert!(again.status.is_success(), "{work:?}: {again}");
            assert_eq!(run.status, 200, "{work:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_fuel_of_a_day_ends_everything_that_enters_a_guest() {
    let names = ["a", "b", "c", "d", "e", "f", "g"];
    let clients = with_keys(names.map(|name| (name, limits(json!({"fuel_per_day": 1})))));
    for (work, client) in EVERY.into_iter().zip(clients) {
        let id = idle_session(&client).await;
        // The first call exhausts the quota, even if it fails.
        work.ask(&client, &id).await;
        for next in EVERY {
            let refused = next.ask(&client, &id).await;
            assert_eq!(refused.status, 429, "{work:?}, then {next:?}: {refused}");
            assert!(refused.json()["detail"].as_str().unwrap().contains("fuel per day"));
        }
        let run = client.post("/v1/runs", &json!({"code": "1"})).await;
        assert_eq!(run.status, 429, "{work:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_left_of_the_day_ends_an_expression_that_goes_on() {
    let [client] = with_keys([("one", limits(json!({"fuel_per_day": 100_000_000})))]);
    let id = idle_session(&client).await;
    let endless = json!({"expressions": {"a": "[0 for _ in iter(int, 1)]"}});
    let answer = client.post(&format!("/v1/sessions/{id}/evaluate"), &endless).await;
    assert!(answer.text().contains("fuel"), "{answer}");
    assert!(figure(&client, "belljar_fuel_total").await >= 100_000_000);
    assert_eq!(Work::Evaluate.ask(&client, &id).await.status, 429);
}

/// Four concurrent runs share the day's remaining fuel.
#[tokio::test(flavor = "multi_thread")]
async fn runs_at_once_draw_from_one_days_fuel() {
    let [client] = with_keys([("one", limits(json!({"fuel_per_day": 400_000_000})))]);
    let endless = json!({"code": "while True: pass"});
    let runs = (0..4).map(|_| client.post("/v1/runs", &endless));
    let mut fuel = 0;
    for answer in futures_util::future::join_all(runs).await {
        if answer.status == StatusCode::OK {
            let outcome = answer.json();
            assert_eq!(outcome["error_detail"]["kind"], "fuel", "{outcome}");
            fuel += outcome["usage"]["fuel"].as_u64().unwrap();
        }
    }
    // A slice of 20 million each, and the fuel for their ends.
    assert!((400_000_000..600_000_000).contains(&fuel), "{fuel}");
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_have_a_place_among_the_runs_at_once() {
    let [client] = with_keys([("one", limits(json!({"concurrent_runs": 1})))]);
    let (busy, id) = (idle_session(&client).await, idle_session(&client).await);
    let path = format!("/v1/sessions/{busy}");
    let endless = json!({"expressions": {"a": "[0 for _ in iter(int, 1)]"}});
    let evaluating = tokio::spawn({
        let (client, path) = (client.clone(), format!("{path}/evaluate"));
        async move { client.post(&path, &endless).await }
    });
    while client.get(&path).await.json()["status"] != "running" {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for work in EVERY {
        assert_eq!(work.ask(&client, &id).await.status, 429, "{work:?}");
    }
    client.ask("POST", &format!("{path}/interrupt"), &[]).await;
    evaluating.await.unwrap();
    assert!(Work::Complete.ask(&client, &id).await.status.is_success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_goes_away_pays_for_what_it_has_begun() {
    let [client] = with_keys([("one", KeyLimits::default())]);
    let code = json!({"code": "while True: pass", "image": "core", "timeout": 60});
    let starting = client.post("/v1/sessions", &code);
    let left = tokio::time::timeout(Duration::from_secs(2), starting).await;
    assert!(left.is_err());
    let mut fuel = 0;
    for _ in 0..500 {
        fuel = figure(&client, "belljar_fuel_total").await;
        if fuel > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(fuel >= 20_000_000, "{fuel}");
}

/// On a server with a concurrency of four, one key has as many endless runs as possible. Another
/// key's run still starts at once and finishes.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_fills_its_share_does_not_keep_another_waiting() {
    let _ = engine();
    let runtime = Runtime::builder().environment().concurrency(4).build().unwrap();
    let [(first, busy), (second, other)] =
        ["busy", "other"].map(|name| Key::generate(name, KeyLimits::default()).unwrap());
    let service = Service::new(runtime);
    let app = App::new(service.clone(), Keys::of(vec![first, second]), Settings::default());
    let router = router(app);
    let [busy, other] = [busy, other].map(|key| Client {
        router: router.clone(),
        key: Some(key),
    });
    // The first run of a process loads shared data.
    assert_eq!(other.post("/v1/runs", &json!({"code": "1"})).await.status, 200);
    let endless = json!({"code": "while True: pass", "timeout": 60});
    let running: Vec<_> = (0..8)
        .map(|_| {
            let (busy, endless) = (busy.clone(), endless.clone());
            tokio::spawn(async move { busy.post("/v1/runs", &endless).await })
        })
        .collect();
    while service.under_way() < 8 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    for _ in 0..5 {
        let answer = other.post("/v1/runs", &json!({"code": "print(1)"})).await;
        assert_eq!(answer.json()["stdout"], "1\n", "{answer}");
        assert!(running.iter().all(|run| !run.is_finished()));
    }
    service.interrupt_all();
    for run in running {
        assert_eq!(run.await.unwrap().status, 200);
    }
}

/// A server with one account and sessions in a store or in its process.
fn server(limits: KeyLimits, is_stored: bool) -> Client {
    if is_stored {
        return on_store(limits, Arc::new(MemoryStore::default()));
    }
    client(limits, Service::new(engine()))
}

fn on_store(limits: KeyLimits, store: Arc<dyn Store>) -> Client {
    let sessions = StoredSessions::new(engine(), store, NodeOptions::default()).unwrap();
    client(limits, Service::builder(engine()).stored(sessions).build())
}

fn client(limits: KeyLimits, service: Service) -> Client {
    let (key, text) = Key::generate("one", limits).unwrap();
    Client {
        router: router(App::new(service, Keys::of(vec![key]), Settings::default())),
        key: Some(text),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_sessions_that_are_made_at_once_there_are_as_many_as_there_may_be() {
    for is_stored in [false, true] {
        let client = server(limits(json!({"sessions": 2})), is_stored);
        let asked = json!({"image": "core", "code": "x = 1"});
        let making = (0..8).map(|_| client.post("/v1/sessions", &asked));
        let made = futures_util::future::join_all(making).await;
        let statuses: Vec<u16> = made.iter().map(|answer| answer.status.as_u16()).collect();
        let count = |status| statuses.iter().filter(|one| **one == status).count();
        assert_eq!((count(201), count(429)), (2, 6), "{is_stored}: {statuses:?}");
        // Refused sessions do not count.
        let listed = client.get("/v1/sessions").await.json();
        let ids: Vec<&str> = listed["sessions"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| s["id"].as_str().unwrap())
            .collect();
        assert_eq!(ids.len(), 2);
        client.ask("DELETE", &format!("/v1/sessions/{}", ids[0]), &[]).await;
        assert_eq!(client.post("/v1/sessions", &asked).await.status, 201);
    }
}

/// A store that is slow to index sessions.
#[derive(Debug, Default)]
struct Slow {
    store: MemoryStore,
    begun: Notify,
    goes_on: Notify,
}

impl Store for Slow {
    fn get<'a>(&'a self, key: &'a str, max: u64) -> store::Answer<'a, Option<Blob>> {
        self.store.get(key, max)
    }

    fn put<'a>(
        &'a self,
        key: &'a str,
        bytes: Bytes,
        condition: Condition,
    ) -> store::Answer<'a, Put> {
        Box::pin(async move {
            if key.starts_with("owners/") {
                self.begun.notify_one();
                self.goes_on.notified().await;
            }
            self.store.put(key, bytes, condition).await
        })
    }

    fn list<'a>(&'a self, folder: &'a str) -> store::Answer<'a, Vec<Entry>> {
        self.store.list(folder)
    }

    fn delete<'a>(&'a self, key: &'a str) -> store::Answer<'a, ()> {
        self.store.delete(key)
    }
}

/// A client that disconnected at the wrong moment left a session that no client could find.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_leaves_while_its_session_is_entered_has_it() {
    let store = Arc::new(Slow::default());
    let client = on_store(limits(json!({"sessions": 1})), Arc::<Slow>::clone(&store));
    let asked = json!({"image": "core"});
    tokio::select! {
        made = client.post("/v1/sessions", &asked) => panic!("{made}"),
        () = store.begun.notified() => {}
    }
    store.goes_on.notify_one();
    let mut count = 0;
    for _ in 0..1_000 {
        let listed = client.get("/v1/sessions").await.json();
        count = listed["sessions"].as_array().unwrap().len();
        if count > 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(count, 1);
    assert_eq!(client.post("/v1/sessions", &asked).await.status, 429);
}

/// Repeats until a key's storage is full, or not full: sizes are measured in the background.
async fn until_full(client: &Client, is_full: bool) {
    for _ in 0..500 {
        let made = client.post("/v1/sessions", &json!({"image": "core"})).await;
        if made.status == 201 {
            let id = made.json()["id"].as_str().unwrap().to_owned();
            client.ask("DELETE", &format!("/v1/sessions/{id}"), &[]).await;
        }
        if (made.status == 429) == is_full {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("it is not as full as it should be");
}

#[tokio::test(flavor = "multi_thread")]
async fn files_count_wherever_their_session_is() {
    for is_stored in [false, true] {
        let client = server(limits(json!({"stored_bytes": 1000})), is_stored);
        let id = client.session(&json!({"image": "core"})).await;
        let (runs, file) =
            (format!("/v1/sessions/{id}/runs"), format!("/v1/sessions/{id}/files/a"));
        let write = json!({"code": "open('a', 'w').write('x' * 2000)"});
        assert_eq!(client.post(&runs, &write).await.status, 200);
        until_full(&client, true).await;
        assert_eq!(client.post(&runs, &write).await.problem(), "limit", "{is_stored}");
        assert_eq!(client.put(&file, "x").await.problem(), "limit", "{is_stored}");
        assert_eq!(client.ask("DELETE", &file, &[]).await.status, 204);
        until_full(&client, false).await;
        assert_eq!(client.put(&file, vec![0_u8; 1500]).await.status, 201);
        until_full(&client, true).await;
        client.ask("DELETE", &format!("/v1/sessions/{id}"), &[]).await;
        until_full(&client, false).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_sandboxes_count_as_well() {
    for is_stored in [false, true] {
        let client = server(limits(json!({"stored_bytes": 1000})), is_stored);
        let made = client.post("/sandboxes", &json!({"templateID": "base"})).await;
        let sandbox = made.json();
        let upload = async || {
            let request = Request::post("/files?path=/home/user/a&username=user")
                .header("e2b-sandbox-id", sandbox["sandboxID"].as_str().unwrap())
                .header("x-access-token", sandbox["envdAccessToken"].as_str().unwrap())
                .header("content-type", "application/octet-stream")
                .body(vec![0_u8; 10_000].into());
            client.send(request.unwrap()).await
        };
        let answer = upload().await;
        assert_eq!(answer.status, 200, "{is_stored}: {answer}");
        until_full(&client, true).await;
        assert_ne!(upload().await.status, 200, "{is_stored}");
        let another = client.post("/sandboxes", &json!({"templateID": "base"})).await;
        assert_eq!(another.status, 429, "{is_stored}: {another}");
    }
}
