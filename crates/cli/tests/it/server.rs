//! A `belljar serve` that ends with the test.

use std::net::TcpStream;

use super::*;

pub(super) const JSON: &str = "Content-Type: application/json\r\n";

/// A server, and the key that it printed.
pub(super) struct Server {
    pub(super) child: Child,
    pub(super) address: String,
    pub(super) key: Option<String>,
}

/// An HTTP response.
pub(super) struct Answer {
    pub(super) status: u16,
    /// The headers, in lower case.
    pub(super) head: String,
    pub(super) body: String,
}

impl Server {
    pub(super) fn start(args: &[&str]) -> Self {
        Self::of(belljar().arg("serve").args(args))
    }

    /// Starts a command on a free port, and waits until it listens.
    pub(super) fn of(command: &mut Command) -> Self {
        command.args(["--listen", "127.0.0.1:0", "--json"]).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let ready: Value = serde_json::from_str(&line).unwrap();
        let (_, address) = ready["url"].as_str().unwrap().split_once("://").unwrap();
        Self {
            child,
            address: address.to_owned(),
            key: ready["key"].as_str().map(str::to_owned),
        }
    }

    /// Sends JSON with the printed key.
    pub(super) fn ask(&self, method: &str, path: &str, body: &Value) -> Answer {
        self.ask_as(self.key.as_deref(), method, path, body)
    }

    pub(super) fn ask_as(
        &self,
        key: Option<&str>,
        method: &str,
        path: &str,
        body: &Value,
    ) -> Answer {
        let key = key.map(|key| format!("Authorization: Bearer {key}\r\n")).unwrap_or_default();
        let headers = key + JSON;
        send(&self.address, method, path, &headers, body.to_string().as_bytes())
    }

    /// The status of an answer to the holder of a key.
    pub(super) fn status(&self, key: &str) -> u16 {
        self.ask_as(Some(key), "GET", "/v1/sessions", &Value::Null).status
    }

    /// Waits until the server has read its keys again.
    pub(super) fn awaits(&self, status: u16, key: &str) {
        let end = Instant::now() + Duration::from_secs(20);
        while self.status(key) != status {
            assert!(Instant::now() < end, "the status is still {}", self.status(key));
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(super) fn signal(&self, name: &str) {
        signal(name, self.child.id());
    }

    /// Ends the server as a service manager does, and returns its status.
    pub(super) fn end(mut self) -> i32 {
        self.signal("-TERM");
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Answer {
    #[track_caller]
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|_| panic!("{}{}", self.head, self.body))
    }

    #[track_caller]
    pub(super) fn is(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}{}", self.head, self.body);
        self
    }
}

/// Sends a request on a connection of its own.
pub(super) fn send(address: &str, method: &str, path: &str, headers: &str, body: &[u8]) -> Answer {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}\
         Content-Length: {}\r\n\r\n",
        body.len()
    );
    let mut stream = TcpStream::connect(address).unwrap();
    stream.write_all(&[head.as_bytes(), body].concat()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{answer}"));
    Answer {
        status: head.split(' ').nth(1).unwrap().parse().unwrap(),
        head: head.to_lowercase(),
        body: body.to_owned(),
    }
}

pub(super) fn signal(name: &str, process: u32) {
    let status = Command::new("kill").args([name, &process.to_string()]).status().unwrap();
    assert!(status.success());
}
