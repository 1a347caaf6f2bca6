//! Peers that send invalid data, stop halfway, or are too many: they affect no other peer.

use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use crate::peer::{Peer, Started, WAIT, frame, greeting, json_of, ready};

#[tokio::test]
async fn who_lies_is_cut_off_and_others_are_served() {
    let started = Started::new("").await;
    let mut old = greeting();
    old[10] = 1;
    let mut encrypted = greeting();
    encrypted[12..17].copy_from_slice(b"CURVE");
    let begin = |bytes: &[u8]| [greeting(), bytes.to_vec()].concat();
    let joined = |bytes: &[u8]| [greeting(), ready("DEALER", b""), bytes.to_vec()].concat();
    let lies = [
        (
            "http",
            b"GET / HTTP/1.1\r\nHost: a\r\nX: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\r\n\r\n"
                .to_vec(),
        ),
        ("an old version", old),
        ("another mechanism", encrypted),
        ("a message before READY", begin(&frame(0, b"a"))),
        ("another socket", begin(&ready("SUB", b""))),
        ("no socket", begin(&frame(4, b"\x05READY"))),
        ("a long name", begin(&ready("DEALER", &[1; 256]))),
        ("a name of ours", begin(&ready("DEALER", b"\0a"))),
        (
            "properties that end early",
            begin(&frame(4, b"\x05READY\x0bSocket-Type\0\0\0\x09DEALER")),
        ),
        ("a huge command", begin(&[6, 0, 0, 0, 0, 1, 0, 0, 0])),
        ("a length of 2^63", joined(&[2, 0x80, 0, 0, 0, 0, 0, 0, 0])),
        ("a length of 1 TiB", joined(&[2, 0, 0, 1, 0, 0, 0, 0, 0])),
        ("unknown flags", joined(&[0x80, 1, 0])),
        ("endless parts", joined(&[1, 0].repeat(2_000))),
    ];
    for (what, bytes) in lies {
        let mut stream = started.connect(started.file.shell_port).await;
        // The kernel may close the connection before it has read everything.
        let _ = stream.write_all(&bytes).await;
        assert!(Peer(stream).is_ended().await, "{what}");
    }
    assert!(started.answers().await);
    started.close().await;
}

#[tokio::test]
async fn what_is_no_message_is_dropped() {
    let started = Started::new("").await;
    let stream = started.connect(started.file.shell_port).await;
    let mut peer = Peer::new(stream, "DEALER", b"me").await;
    let header = br#"{"msg_type": "kernel_info_request"}"#;
    let wrong: [&[&[u8]]; 7] = [
        &[b""],
        &[b"<IDS|MSG>"],
        &[b"<IDS|MSG>", b"", header, b"{}", b"{}"],
        &[b"<IDS|MSG>", b"", b"\xff", b"{}", b"{}", b"{}"],
        &[b"<IDS|MSG>", b"", b"{}", b"{}", b"{}", b"{}"],
        &[b"<IDS|MSG>", b"", header, b"[]", b"{}", b"{}"],
        &[header, b"{}", b"{}", b"{}"],
    ];
    for parts in wrong {
        peer.send(parts).await;
    }
    peer.ask("nothing_request", &json!({})).await;
    peer.ask("is_complete_request", &json!({"code": 5})).await;
    peer.ask("history_request", &json!({"n": -5, "hist_access_type": []})).await;
    let mut answered = Vec::new();
    for _ in 0..2 {
        let reply = timeout(WAIT, peer.message()).await.expect("an answer");
        answered.push(json_of(&reply, 2)["msg_type"].clone());
    }
    assert_eq!(answered, ["is_complete_reply", "history_reply"]);
    started.close().await;
}

#[tokio::test]
async fn nothing_is_heard_without_the_key() {
    let started = Started::new("secret").await;
    let stream = started.connect(started.file.control_port).await;
    let mut peer = Peer::new(stream, "DEALER", b"").await;
    peer.ask("shutdown_request", &json!({})).await;
    let silence = std::time::Duration::from_millis(500);
    assert!(timeout(silence, peer.message()).await.is_err());
    started.close().await;
}

#[tokio::test]
async fn half_open_connections_keep_nobody_out() {
    let started = Started::new("").await;
    let mut half_open = Vec::new();
    for index in 0..300 {
        let mut stream = started.connect(started.file.shell_port).await;
        if index % 2 == 0 {
            stream.write_all(&greeting()[..20]).await.unwrap();
        }
        half_open.push(stream);
    }
    assert!(started.answers().await);
    drop(half_open);
    started.close().await;
}

#[tokio::test]
async fn the_name_of_another_is_taken_by_nobody() {
    let started = Started::new("").await;
    let port = started.file.shell_port;
    let mut first = Peer::new(started.connect(port).await, "DEALER", b"me").await;
    let mut second = started.connect(port).await;
    second.write_all(&[greeting(), ready("DEALER", b"me")].concat()).await.unwrap();
    assert!(Peer(second).is_ended().await);
    first.ask("kernel_info_request", &json!({})).await;
    assert_eq!(json_of(&first.message().await, 2)["msg_type"], "kernel_info_reply");
    started.close().await;
}

#[tokio::test]
async fn a_subscriber_that_reads_nothing_holds_nobody_up_for_long() {
    let started = Started::new("").await;
    let stream = started.connect(started.file.iopub_port).await;
    let mut deaf = Peer::new(stream, "SUB", b"").await;
    deaf.send(&[b"\x01"]).await;
    let stream = started.connect(started.file.shell_port).await;
    let mut peer = Peer::new(stream, "DEALER", b"").await;
    let code = "for _ in range(200): print('x' * 100_000, flush=True)";
    peer.ask("execute_request", &json!({"code": code})).await;
    let reply = timeout(WAIT, peer.message()).await.expect("an answer");
    assert_eq!(json_of(&reply, 2)["msg_type"], "execute_reply");
    started.close().await;
}
