//! The kernel without sockets: requests in, messages out.

use std::pin::Pin;
use std::sync::Arc;

use belljar::Request;
use belljar_kernel::{
    Channel, ExecutionState, Kernel, Message, Outgoing, Outlet, Peer, Room, info,
};
use serde_json::{Map, Value, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::peer::{Peer as Connection, Sessions, Started, WAIT, json_of};

struct Outgoings(mpsc::UnboundedSender<Outgoing>);

impl Outlet for Outgoings {
    fn send(&self, message: Outgoing) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        // The test no longer reads.
        let _ = self.0.send(message);
        Box::pin(std::future::ready(()))
    }
}

struct Client {
    kernel: Kernel,
    messages: mpsc::UnboundedReceiver<Outgoing>,
}

impl Client {
    fn new() -> Self {
        let (to, messages) = mpsc::unbounded_channel();
        let kernel = Kernel::start(Sessions, Outgoings(to), Request::default());
        Self { kernel, messages }
    }

    async fn ask(&self, channel: Channel, kind: &str, content: Value) {
        let header = json!({"msg_id": kind, "msg_type": kind, "session": "s"});
        let message =
            Message::from_parts(header, Value::Null, Value::Null, content, Vec::new()).unwrap();
        let room = || Some(Arc::new(()) as Room);
        self.kernel.deliver(channel, Peer::from_static(b"me"), message, room).await;
    }

    async fn next(&mut self) -> Outgoing {
        timeout(WAIT, self.messages.recv()).await.expect("in time").expect("a message")
    }

    /// All messages up to the end of a request: type and content of each.
    async fn told(&mut self) -> Vec<(String, Map<String, Value>)> {
        let mut told = Vec::new();
        loop {
            let Outgoing { message, .. } = self.next().await;
            let is_last = message.content.get("execution_state") == Some(&json!("idle"));
            told.push((message.kind().to_owned(), message.content));
            if is_last {
                return told;
            }
        }
    }

    async fn execute(&mut self, code: &str) -> Vec<(String, Map<String, Value>)> {
        self.ask(Channel::Shell, "execute_request", json!({"code": code})).await;
        self.told().await
    }
}

fn kinds(told: &[(String, Map<String, Value>)]) -> Vec<&str> {
    told.iter().map(|(kind, _)| kind.as_str()).collect()
}

#[tokio::test]
async fn what_a_cell_tells_comes_before_its_answer_and_idle_last() {
    let mut client = Client::new();
    let told = client.execute("print(1)\n2").await;
    assert_eq!(
        kinds(&told),
        ["status", "execute_input", "stream", "execute_result", "execute_reply", "status"]
    );
    assert_eq!(told[2].1["text"], "1\n");
    assert_eq!(told[3].1["data"]["text/plain"], "2");
    assert_eq!(told[4].1["execution_count"], 1);
    client.kernel.close().await;
    assert_eq!(client.kernel.activity().state, ExecutionState::Dead);
}

#[tokio::test]
async fn the_version_of_python_is_the_one_inside() {
    let mut client = Client::new();
    let told = client.execute("import sys; print(sys.version.split()[0])").await;
    assert_eq!(told[2].1["text"].as_str().unwrap().trim(), info::PYTHON);
    client.kernel.close().await;
}

#[tokio::test]
async fn an_error_has_the_shape_that_ipython_gives_it() {
    let mut client = Client::new();
    client.execute("def f():\n    return 1 / 0").await;
    let told = client.execute("f()").await;
    let (_, error) = told.iter().find(|(kind, _)| kind == "error").unwrap();
    let lines: Vec<&str> =
        error["traceback"].as_array().unwrap().iter().map(|line| line.as_str().unwrap()).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
    ---------------------------------------------------------------------------
    ZeroDivisionError                         Traceback (most recent call last)
    Cell In[2], line 1
    ----> 1 f()

    Cell In[1], line 2, in f()
          1 def f():
    ----> 2     return 1 / 0

    ZeroDivisionError: division by zero
    ");
    client.kernel.close().await;
}

/// As in ipykernel: the cell has the next number, its reply the latest one.
#[tokio::test]
async fn what_is_not_stored_takes_no_number() {
    let mut client = Client::new();
    client.execute("'one'").await;
    for (key, value) in [("store_history", false), ("silent", true)] {
        let content = json!({"code": "x = 20; 'aside'", key: value});
        client.ask(Channel::Shell, "execute_request", content).await;
        let told = client.told().await;
        let (_, reply) = told.iter().find(|(kind, _)| kind == "execute_reply").unwrap();
        assert_eq!(reply["execution_count"], 1, "{key}");
        let input = told.iter().find(|(kind, _)| kind == "execute_input");
        let number = input.map(|(_, content)| content["execution_count"].clone());
        assert_eq!(number, (key != "silent").then(|| json!(2)), "{key}");
    }
    let told = client.execute("print(x, In, Out, _)\n1 / 0").await;
    assert_eq!(told[1].1["execution_count"], 2);
    let seen = "20 ['', \"'one'\", 'print(x, In, Out, _)\\n1 / 0'] {1: 'one'} one\n";
    assert_eq!(told[2].1["text"], seen);
    let last = "r = get_ipython().last_execution_result\nprint(r.success, repr(r.error_in_exec))";
    let told = client.execute(last).await;
    assert_eq!(told[1].1["execution_count"], 3);
    assert_eq!(told[2].1["text"], "False ZeroDivisionError('division by zero')\n");
    client.kernel.close().await;
}

/// A client that was connected before a restart reconnects each of its sockets separately.
#[tokio::test]
async fn a_cell_waits_for_a_subscriber_that_is_late() {
    let started = Started::new("").await;
    let mut shell =
        Connection::new(started.connect(started.file.shell_port).await, "DEALER", b"").await;
    shell.ask("execute_request", &json!({"code": "print('heard')"})).await;
    tokio::time::sleep(std::time::Duration::from_millis(150)).await;
    let mut iopub =
        Connection::new(started.connect(started.file.iopub_port).await, "SUB", b"").await;
    iopub.send(&[b"\x01"]).await;
    let mut heard = Vec::new();
    while !heard.contains(&json!("stream")) {
        let message =
            timeout(WAIT, iopub.message()).await.expect("the output, and not only the end");
        heard.push(json_of(&message, 3)["msg_type"].clone());
        let is_over = json_of(&message, 6)["execution_state"] == "idle";
        assert!(!is_over, "the output went before: {heard:?}");
    }
    started.close().await;
}

#[tokio::test]
async fn control_is_answered_while_code_runs() {
    let mut client = Client::new();
    client.ask(Channel::Shell, "execute_request", json!({"code": "while True: pass"})).await;
    while client.next().await.message.kind() != "execute_input" {}
    client.ask(Channel::Control, "kernel_info_request", json!({})).await;
    while client.next().await.message.kind() != "kernel_info_reply" {}
    assert_eq!(client.kernel.activity().state, ExecutionState::Busy);
    client.ask(Channel::Control, "interrupt_request", json!({})).await;
    let mut answered = Vec::new();
    while answered.len() < 2 {
        let Outgoing { message, .. } = client.next().await;
        if message.kind().ends_with("_reply") {
            answered.push((message.kind().to_owned(), message.content["status"].clone()));
        }
    }
    answered.sort_by(|one, other| one.0.cmp(&other.0));
    assert_eq!(answered[0], ("execute_reply".to_owned(), json!("error")));
    assert_eq!(answered[1], ("interrupt_reply".to_owned(), json!("ok")));
    client.kernel.close().await;
}

#[tokio::test]
async fn a_shutdown_is_answered_and_told_to_all() {
    let mut client = Client::new();
    client.ask(Channel::Control, "shutdown_request", json!({"restart": true})).await;
    let told = client.told().await;
    assert_eq!(kinds(&told), ["status", "shutdown_reply", "shutdown_reply", "status"]);
    assert_eq!(told[1].1["restart"], true);
    timeout(WAIT, client.kernel.over()).await.expect("it is over");
    client.kernel.close().await;
}

#[tokio::test]
async fn a_restart_ends_what_runs_and_forgets_everything() {
    let mut client = Client::new();
    client.execute("x = 1").await;
    client.ask(Channel::Shell, "execute_request", json!({"code": "while True: pass"})).await;
    while client.next().await.message.kind() != "execute_input" {}
    client.kernel.restart().await;
    while client.next().await.message.content.get("execution_state") != Some(&json!("starting")) {}
    let told = client.execute("x").await;
    let (_, reply) = told.iter().find(|(kind, _)| kind == "execute_reply").unwrap();
    assert_eq!((&reply["ename"], &reply["execution_count"]), (&json!("NameError"), &json!(1)));
    client.kernel.close().await;
}

#[tokio::test]
async fn too_many_requests_are_refused_and_not_kept() {
    let mut client = Client::new();
    client.ask(Channel::Shell, "execute_request", json!({"code": "while True: pass"})).await;
    while client.next().await.message.kind() != "execute_input" {}
    for _ in 0..1_001 {
        client.ask(Channel::Shell, "history_request", json!({})).await;
    }
    let refused = loop {
        let Outgoing { message, .. } = client.next().await;
        if message.kind() == "history_reply" {
            break message.content;
        }
    };
    assert_eq!(refused["ename"], "QueueFull");
    client.kernel.close().await;
}

#[tokio::test]
async fn it_cannot_be_used_once_it_is_closed() {
    let mut client = Client::new();
    client.execute("1").await;
    client.kernel.close().await;
    client.ask(Channel::Shell, "execute_request", json!({"code": "1"})).await;
    let answer = loop {
        let Outgoing { message, .. } = client.next().await;
        if message.kind() == "execute_reply" {
            break message.content;
        }
    };
    assert_eq!(answer["status"], "error");
}
