//! `/v1/sessions/{id}/files`.

use serde_json::json;

use crate::support::{Client, open};

async fn session() -> (Client, String) {
    let client = open();
    let id = client.session(&json!({"image": "core"})).await;
    (client, format!("/v1/sessions/{id}"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_goes_in_is_seen_by_the_code_and_comes_out() {
    let (client, session) = session().await;
    let path = format!("{session}/files/data/a%20b.txt");
    assert_eq!(client.put(&path, "one").await.status, 201);
    assert_eq!(client.put(&path, "hello").await.status, 200);
    let id = session.rsplit('/').next().unwrap();
    let outcome = client.run(id, "print(open('data/a b.txt').read())").await;
    assert_eq!(outcome["stdout"], "hello\n", "{outcome}");
    let listed = client.get(&format!("{session}/files?depth=2")).await.json();
    let entries: Vec<(&str, &str)> = listed["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| (entry["path"].as_str().unwrap(), entry["kind"].as_str().unwrap()))
        .collect();
    assert_eq!(entries, [("data", "directory"), ("data/a b.txt", "file")]);
    assert_eq!(client.get(&path).await.text(), "hello");
    let head = client.ask("HEAD", &path, &[]).await;
    assert_eq!((head.body.len(), &head.headers["content-length"]), (0, &"5".parse().unwrap()));
    assert_eq!(client.ask("DELETE", &path, &[]).await.status, 204);
    assert_eq!(client.get(&path).await.problem(), "no_such_file");
}

#[tokio::test(flavor = "multi_thread")]
async fn ranges_and_tags_are_obeyed() {
    let (client, session) = session().await;
    let path = format!("{session}/files/a.bin");
    client.put(&path, "0123456789").await;
    let whole = client.get(&path).await;
    let tag = whole.headers["etag"].to_str().unwrap();
    let part = client.ask("GET", &path, &[("range", "bytes=2-4")]).await;
    assert_eq!((part.status.as_u16(), part.text()), (206, "234"));
    let part = client.ask("GET", &path, &[("range", "bytes=2-4"), ("if-range", "\"x\"")]).await;
    assert_eq!((part.status.as_u16(), part.text()), (200, "0123456789"));
    let beyond = client.ask("GET", &path, &[("range", "bytes=10-")]).await;
    assert_eq!((beyond.status.as_u16(), beyond.problem().as_str()), (416, "file.range"));
    let known = client.ask("GET", &path, &[("if-none-match", tag)]).await;
    assert_eq!((known.status.as_u16(), known.body.len()), (304, 0));
    let write = async |headers: &[(&str, &str)]| {
        let request =
            headers.iter().fold(axum::http::Request::put(&path), |request, (name, value)| {
                request.header(*name, *value)
            });
        client.send(request.body("new".into()).unwrap()).await
    };
    assert_eq!(write(&[("if-none-match", "*")]).await.problem(), "file.changed");
    assert_eq!(write(&[("if-match", "\"x\"")]).await.problem(), "file.changed");
    assert_eq!(write(&[("if-match", tag)]).await.status, 200);
    assert_eq!(client.get(&path).await.text(), "new");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_file_is_streamed_in_both_directions() {
    let (client, session) = session().await;
    let bytes: Vec<u8> = (0..5_000_000u32).map(|n| (n % 251) as u8).collect();
    let path = format!("{session}/files/large.bin");
    assert_eq!(client.put(&path, bytes.clone()).await.status, 201);
    assert!(client.get(&path).await.body == bytes);
    let part = client.ask("GET", &path, &[("range", "bytes=1000000-3999999")]).await;
    assert!(part.body == bytes[1_000_000..4_000_000]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_workspace_that_is_full_says_so() {
    let client = open();
    let id = client.session(&json!({"image": "core", "workspace_mb": 1})).await;
    let path = format!("/v1/sessions/{id}/files/large.bin");
    let answer = client.put(&path, vec![0; 2 << 20]).await;
    assert_eq!((answer.status.as_u16(), answer.problem().as_str()), (507, "session.full"));
    assert_eq!(client.get(&path).await.problem(), "no_such_file");
}

#[tokio::test(flavor = "multi_thread")]
async fn directories_are_made_and_files_renamed() {
    let (client, session) = session().await;
    let made = client.post(&format!("{session}/directories"), &json!({"path": "a/b"})).await;
    assert_eq!(made.status, 204, "{made}");
    client.put(&format!("{session}/files/x"), "x").await;
    let rename = json!({"from": "x", "to": "a/b/y"});
    assert_eq!(client.post(&format!("{session}/rename"), &rename).await.status, 204);
    assert_eq!(client.get(&format!("{session}/files/a/b/y")).await.text(), "x");
    assert_eq!(client.get(&format!("{session}/files/a")).await.problem(), "session.path");
}
