//! E2B sandboxes.

use std::future;
use std::task::Poll;
use std::time::Duration;

use belljar_server::{App, Keys, Service, router};
use serde_json::json;

use crate::support::{Client, everything};

/// A client that disconnects at any point while its sandbox is created leaves no sandbox behind.
#[tokio::test(flavor = "multi_thread")]
async fn a_sandbox_that_nobody_waits_for_is_gone() {
    nothing_is_left(false).await;
}

/// The same for forks, whose sessions are copied one by one.
#[tokio::test(flavor = "multi_thread")]
async fn a_fork_that_nobody_waits_for_is_gone() {
    nothing_is_left(true).await;
}

async fn nothing_is_left(is_fork: bool) {
    // Only sessions of this engine are counted.
    let runtime = belljar::Runtime::builder().environment().build().unwrap();
    let app = App::new(Service::new(runtime.clone()), Keys::none(), everything());
    let client = Client {
        router: router(app),
        key: None,
    };
    let asked = json!({"templateID": "core"});
    let made = client.post("/sandboxes", &asked).await;
    assert_eq!(made.status, 201, "{made}");
    let kill = async |id: &str| client.ask("DELETE", &format!("/sandboxes/{id}"), &[]).await.status;
    let first = made.json()["sandboxID"].as_str().unwrap().to_owned();
    let (path, asked) = if is_fork {
        (format!("/sandboxes/{first}/fork"), json!({"count": 1}))
    } else {
        assert_eq!(kill(&first).await, 204);
        ("/sandboxes".to_owned(), asked)
    };
    // A killed sandbox's session may still be listed briefly.
    let others = usize::from(is_fork);
    let mut left = 0;
    for n in 0..40_u32 {
        let mut making = std::pin::pin!(client.post(&path, &asked));
        let mut made = Poll::Pending;
        for _ in 0..n * n {
            made = future::poll_fn(|context| Poll::Ready(making.as_mut().poll(context))).await;
            if made.is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
        match made {
            Poll::Ready(made) => {
                let made = made.json();
                let made = if is_fork { &made[0]["sandbox"] } else { &made };
                assert_eq!(kill(made["sandboxID"].as_str().unwrap()).await, 204);
            }
            Poll::Pending => left += 1,
        }
    }
    assert!(left > 1, "everything was made at once");
    let empty = async {
        while runtime.sessions().list().len() > others {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let gone = tokio::time::timeout(Duration::from_secs(10), empty).await;
    assert!(gone.is_ok(), "{} sessions are left", runtime.sessions().list().len());
    let left = client.get("/sandboxes").await.json();
    assert_eq!(left.as_array().unwrap().len(), others, "{left}");
}
