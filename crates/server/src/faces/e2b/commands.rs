//! Commands. Those that need no process run in an interpreter of their own; the files that they
//! change are merged into the sandbox.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Path, Request};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use belljar::Outcome;
use belljar::event::{Event, EventKind, event_channel};
use belljar::outcome::ErrorKind;
use belljar::request::Dialect;
use belljar::session::SessionFiles;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::envelope::{self, MAX_MESSAGE};
use super::fault::Fault;
use super::paths::{self, HOME};
use super::processes::{Config, Listed, Message, Process, Selector};
use super::sandbox::Sandbox;
use super::target::{Open, body, json_body};
use crate::http::identity;
use crate::service::owned_session::OwnedSession;
use crate::service::owner::Owner;
use crate::service::session_store::{Access, ClaimedSession};

const NONE: &str = "processes cannot run in this sandbox; use run_code";

#[derive(Debug, Deserialize)]
struct Start {
    process: Config,
    #[serde(default)]
    tag: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Selected {
    process: Selector,
}

#[derive(Debug, Default, Deserialize)]
struct Asked {
    #[serde(default)]
    process: Selector,
    #[serde(default)]
    signal: Value,
}

/// `POST /process.Process/{method}`: the methods that do not stream.
pub(super) async fn call(
    sandbox: Result<Open, Fault>,
    Path(method): Path<String>,
    request: Request,
) -> Response {
    let answered = async {
        let Open(sandbox) = sandbox?;
        answer(&sandbox, &method, request).await
    };
    match answered.await {
        Ok(answer) => Json(answer).into_response(),
        Err(fault) => fault.into_connect(),
    }
}

async fn answer(sandbox: &Sandbox, method: &str, request: Request) -> Result<Value, Fault> {
    let unimplemented = |message: &str| Fault::new(StatusCode::NOT_IMPLEMENTED, message);
    match method {
        "List" => Ok(sandbox.processes.list()),
        "SendSignal" => {
            let asked: Asked = json_body(&sandbox.owner, request).await?;
            let process = sandbox.processes.find(&asked.process)?;
            match &asked.signal {
                Value::String(name) if name == "SIGNAL_SIGKILL" || name == "SIGNAL_SIGTERM" => {}
                Value::Number(number) if matches!(number.as_u64(), Some(9 | 15)) => {}
                other => {
                    return Err(Fault::invalid(format!(
                        "signal {other} is not supported; use SIGTERM or SIGKILL"
                    )));
                }
            }
            process.kill();
            Ok(json!({}))
        }
        "SendInput" | "CloseStdin" | "Update" => {
            let asked: Asked = json_body(&sandbox.owner, request).await?;
            sandbox.processes.find(&asked.process)?;
            Err(unimplemented("commands have no standard input and no terminal"))
        }
        _ => Err(unimplemented(NONE)),
    }
}

/// `POST /process.Process/StreamInput`.
pub(super) async fn stream_input(sandbox: Result<Open, Fault>) -> Response {
    let fault = sandbox.map(|_| "commands have no standard input");
    stream(fault.and_then(|why| Err(Fault::new(StatusCode::NOT_IMPLEMENTED, why))))
}

/// `POST /process.Process/Connect`.
pub(super) async fn connect(sandbox: Result<Open, Fault>, request: Request) -> Response {
    let followed = async {
        let Open(sandbox) = sandbox?;
        let asked: Selected = first(&sandbox.owner, request).await?;
        sandbox.processes.find(&asked.process)?.follow()
    };
    stream(followed.await)
}

/// `POST /process.Process/Start`.
pub(super) async fn start(sandbox: Result<Open, Fault>, request: Request) -> Response {
    let begun = async {
        let Open(sandbox) = sandbox?;
        let time = time(request.headers());
        let Start { process, tag } = first(&sandbox.owner, request).await?;
        let command = Command::of(&process.cmd, &process.args)
            .ok_or_else(|| Fault::new(StatusCode::NOT_IMPLEMENTED, NONE))?;
        let mut request = command.into_request(sandbox.request(String::new()));
        request.run_env.clone_from(&process.envs);
        let cwd = paths::existing(process.cwd.as_deref().unwrap_or(HOME))?;
        request.cwd = Some(cwd.absolute());
        let listed = sandbox.processes.add(sandbox.next(), process, tag)?;
        let messages = listed.process.follow()?;
        tokio::spawn(identity::carried(run(sandbox, listed, request, time)));
        Ok(messages)
    };
    stream(begun.await)
}

/// Whether a message is a valid request to start a process.
#[cfg(feature = "fuzzing")]
pub(super) fn is_start(message: &[u8]) -> bool {
    serde_json::from_slice::<Start>(message).is_ok()
}

/// Time limit that the client sets for a command. It applies even if no client follows the command.
fn time(headers: &HeaderMap) -> Option<Duration> {
    let millis = headers.get("connect-timeout-ms")?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_millis(millis)).filter(|time| !time.is_zero())
}

/// Reads the first message of a streaming call.
pub(super) async fn first<T: DeserializeOwned>(
    owner: &Owner,
    request: Request,
) -> Result<T, Fault> {
    let body = body(owner, request, MAX_MESSAGE + 64).await?;
    serde_json::from_slice(envelope::first_message(&body)?)
        .map_err(|error| Fault::invalid(format!("invalid message: {error}")))
}

/// The response of a streaming call.
pub(super) fn stream(messages: Result<mpsc::Receiver<Message>, Fault>) -> Response {
    let body = match messages {
        Ok(messages) => Body::from_stream(ReceiverStream::new(messages)),
        Err(fault) => Body::from(envelope::end(Some(&fault))),
    };
    let mut response = Response::new(body);
    let kind = HeaderValue::from_static("application/connect+json");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// What a command translates to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Command {
    /// Runs Python source: code and arguments.
    Code(String, Vec<String>),
    /// Runs a Python file of the sandbox: path and arguments.
    File(String, Vec<String>),
    /// A line for the notebook input dialect.
    Line(String),
}

/// Commands that the dialect implements.
const LINES: [&str; 6] = ["cat", "echo", "ls", "pip", "pip3", "pwd"];
/// Characters that end a simple command or make it a compound one.
const BEYOND: &str = "|<>&;`$(\n";

impl Command {
    /// Translates a client's process; `None` if it needs a real process.
    pub(super) fn of(program: &str, args: &[String]) -> Option<Self> {
        let name = program.rsplit('/').next().unwrap_or(program);
        match (name, args) {
            ("bash" | "sh", [rest @ .., line])
                if rest.last().is_some_and(|flag| is_command(flag)) =>
            {
                Self::of_line(line.trim())
            }
            _ => Self::of_words(name, args),
        }
    }

    fn of_line(line: &str) -> Option<Self> {
        let words = shlex::split(line)?;
        let (program, args) = words.split_first()?;
        let name = program.rsplit('/').next().unwrap_or(program);
        if is_python(name) {
            // The shell's special characters have no meaning inside quotes, where code often has
            // them.
            let is_plain = shlex::try_join(words.iter().map(String::as_str)).is_ok();
            let outside = unquoted(line);
            return (is_plain && !outside.contains(|c| BEYOND.contains(c)))
                .then(|| Self::of_words(name, args))
                .flatten();
        }
        let is_simple = !unquoted(line).contains(|c| BEYOND.contains(c));
        (LINES.contains(&name) && is_simple).then(|| Self::Line(line.to_owned()))
    }

    fn of_words(name: &str, args: &[String]) -> Option<Self> {
        if LINES.contains(&name) {
            let words = std::iter::once(name).chain(args.iter().map(String::as_str));
            return shlex::try_join(words).ok().filter(|line| !line.contains('\n')).map(Self::Line);
        }
        if !is_python(name) {
            return None;
        }
        let args = match args {
            [flag, rest @ ..] if flag == "-u" => rest,
            all => all,
        };
        match args {
            [flag] if flag == "--version" || flag == "-V" => Some(Self::Code(
                "import platform; print('Python', platform.python_version())".into(),
                vec![],
            )),
            [flag, module, rest @ ..] if flag == "-m" && module == "pip" => {
                Self::of_words("pip", rest)
            }
            [flag, code, rest @ ..] if flag == "-c" => {
                Some(Self::Code(code.clone(), rest.to_vec()))
            }
            [file, rest @ ..] if !file.starts_with('-') => {
                Some(Self::File(file.clone(), rest.to_vec()))
            }
            _ => None,
        }
    }

    /// Adds this command to a request that has only limits.
    pub(super) fn into_request(self, mut request: belljar::Request) -> belljar::Request {
        request.echo = Some(belljar::request::Echo::None);
        match self {
            Self::Code(code, args) => {
                request.code = if code.trim().is_empty() {
                    "pass".into()
                } else {
                    code
                };
                request.args = args;
            }
            Self::File(path, args) => {
                request.code = "import runpy, sys\nsys.argv.pop(0)\nrunpy.run_path(sys.argv[0], run_name='__main__')".into();
                request.args = std::iter::once(path).chain(args).collect();
            }
            Self::Line(line) => {
                request.code = format!("!{line}\nraise SystemExit(_exit_code)");
                request.dialect = Dialect::Ipython;
            }
        }
        request
    }
}

fn is_command(flag: &str) -> bool {
    flag.starts_with('-') && flag.ends_with('c')
}

fn is_python(name: &str) -> bool {
    matches!(name, "python" | "python3")
}

/// Removes quoted and escaped parts from a line.
fn unquoted(line: &str) -> String {
    let mut outside = String::new();
    let mut quote = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (Some('\''), _) => {}
            (_, '\\') => drop(characters.next()),
            // The shell expands variables inside double quotes.
            (Some(_), '$' | '`') => outside.push(c),
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(c),
            (None, c) => outside.push(c),
        }
    }
    outside
}

/// Runs a command for at most `time`.
pub(super) async fn run(
    sandbox: Arc<Sandbox>,
    listed: Listed,
    request: belljar::Request,
    time: Option<Duration>,
) {
    let process = Arc::clone(&listed.process);
    let (watcher, mut events) = event_channel();
    let request = sandbox.with_env(request).watch(watcher).interrupt(&process.interrupt);
    let mut execution = std::pin::pin!(execute(&sandbox, request, &process));
    let mut over = std::pin::pin!(tokio::time::sleep(time.unwrap_or(Duration::MAX)));
    let ended = loop {
        tokio::select! {
            biased;
            Some(event) = events.next() => {
                if let Some(data) = data(event) {
                    process.tell(&json!({ "data": data })).await;
                }
            }
            ended = &mut execution => break ended,
            () = &mut over, if !process.is_killed() => process.kill(),
            () = sandbox.killed.cancelled(), if !process.is_killed() => process.kill(),
        }
    };
    while let Some(event) = events.next().await {
        if let Some(data) = data(event) {
            process.tell(&json!({ "data": data })).await;
        }
    }
    let fault = match ended {
        Ok(outcome) => {
            process.tell(&json!({"end": end(outcome.as_ref(), &process)})).await;
            None
        }
        Err(fault) => Some(fault),
    };
    // A client that reads the end event must find the command gone.
    drop(listed);
    process.finish(fault.as_ref()).await;
}

/// Runs the command unless it is killed first.
async fn execute(
    sandbox: &Sandbox,
    request: belljar::Request,
    process: &Process,
) -> Result<Option<Outcome>, Fault> {
    let session = sandbox.fresh(HOME).await?;
    let ran = Box::pin(execute_in(sandbox, request, process, &session)).await;
    sandbox.remove_session(session.id()).await;
    ran
}

async fn execute_in(
    sandbox: &Sandbox,
    request: belljar::Request,
    process: &Process,
    session: &OwnedSession,
) -> Result<Option<Outcome>, Fault> {
    let turn = tokio::select! {
        turn = sandbox.turn_waiting(|_| Access::Read) => turn?,
        () = process.killed.cancelled() => return Ok(None),
    };
    let at = sandbox.service().claim(&sandbox.owner, session.id(), Access::Run).await?;
    let theirs = at.view().all_files();
    let given = match turn.files() {
        Ok(files) => theirs.replace_with(&files).await.map_err(Fault::from),
        Err(fault) => Err(fault),
    };
    turn.release().await?;
    given?;
    let base = Base::of(sandbox, &at).await?;
    let ran = async {
        let outcome = sandbox.service().run_claimed(&sandbox.user(), at, request).await?;
        let at = sandbox.service().claim(&sandbox.owner, session.id(), Access::Read).await?;
        let is_changed = !base.is_as_in(sandbox, &at).await?;
        at.release().await?;
        if is_changed {
            let turn = sandbox.turn_waiting(|_| Access::Change).await?;
            let given = match turn.files() {
                Ok(ours) => base.give(&ours, &theirs).await,
                Err(fault) => Err(fault),
            };
            sandbox.commit(turn).await?;
            given?;
        }
        Ok(Some(outcome))
    };
    let ran = Box::pin(ran).await;
    base.remove(sandbox).await;
    ran
}

/// The output message for an event.
fn data(event: Event) -> Option<Value> {
    match event.kind {
        EventKind::Stdout { text } => Some(json!({"stdout": STANDARD.encode(text)})),
        EventKind::Stderr { text } => Some(json!({"stderr": STANDARD.encode(text)})),
        EventKind::Display(display) | EventKind::Result(display) => {
            let text = display.data.get("text/plain")?.as_str()?;
            Some(json!({"stdout": STANDARD.encode(format!("{text}\n"))}))
        }
        EventKind::Error { error, detail } if detail.kind != ErrorKind::Exit => {
            let text = detail.traceback.unwrap_or(error);
            Some(json!({"stderr": STANDARD.encode(format!("{}\n", text.trim_end()))}))
        }
        _ => None,
    }
}

/// The end message for an outcome: the status that a process would have had.
fn end(outcome: Option<&Outcome>, process: &Process) -> Value {
    let detail = outcome.map(|outcome| outcome.error_detail.as_ref());
    let is_interrupted =
        matches!(detail, Some(Some(detail)) if detail.kind == ErrorKind::Interrupted);
    if detail.is_none() || (is_interrupted && process.is_killed()) {
        let status = "signal: killed";
        return json!({"exitCode": -1, "exited": false, "status": status, "error": status});
    }
    let code = match detail.flatten() {
        None => 0,
        Some(detail) => match (detail.kind, detail.exit_status) {
            (ErrorKind::Exit, Some(status)) => status,
            (ErrorKind::Interrupted, _) => 130,
            _ => 1,
        },
    };
    json!({"exitCode": code, "exited": true, "status": format!("exit status {code}")})
}

/// A snapshot of a session's files, held in a session of its own.
pub(super) struct Base(OwnedSession);

impl Base {
    pub(super) async fn of(sandbox: &Sandbox, at: &ClaimedSession) -> Result<Self, Fault> {
        Ok(Self(sandbox.service().fork_of(&sandbox.user(), at, None).await?))
    }

    /// Whether the session's files are unchanged since the snapshot.
    pub(super) async fn is_as_in(
        &self,
        sandbox: &Sandbox,
        at: &ClaimedSession,
    ) -> Result<bool, Fault> {
        let copy = Self::of(sandbox, at).await?;
        let changed = copy.files().replace_with(&self.files()).await;
        copy.remove(sandbox).await;
        Ok(!changed?)
    }

    fn files(&self) -> SessionFiles {
        self.0.view().all_files()
    }

    pub(super) async fn remove(self, sandbox: &Sandbox) {
        sandbox.remove_session(self.0.id()).await;
    }

    /// Copies the differences between this snapshot and `theirs` into `ours`.
    pub(super) async fn give(
        &self,
        ours: &SessionFiles,
        theirs: &SessionFiles,
    ) -> Result<(), Fault> {
        Ok(ours.merge(&self.files(), theirs).await?)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(line: &str) -> Option<Command> {
        Command::of("/bin/bash", &["-l".into(), "-c".into(), line.into()])
    }

    #[test]
    fn what_needs_no_process_is_known() {
        let line = |text: &str| Some(Command::Line(text.into()));
        assert_eq!(of("ls -la /home/user"), line("ls -la /home/user"));
        assert_eq!(of("echo 'a; b'"), line("echo 'a; b'"));
        assert_eq!(of("pip install requests"), line("pip install requests"));
        assert_eq!(of("python3 -m pip install -q x"), line("pip install -q x"));
        let code = Some(Command::Code("print(1); print('a|b')".into(), vec!["x".into()]));
        assert_eq!(of("python -c \"print(1); print('a|b')\" x"), code);
        let file = Some(Command::File("a b.py".into(), vec!["--x".into()]));
        assert_eq!(of("python3 -u 'a b.py' --x"), file);
        assert!(matches!(of("python3 --version"), Some(Command::Code(..))));
        assert_eq!(
            Command::of("python3", &["-c".into(), "1".into()]),
            Some(Command::Code("1".into(), vec![]))
        );
    }

    #[test]
    fn what_needs_one_is_not() {
        for line in [
            "",
            "'",
            "npm install",
            "ls | wc",
            "echo $(id)",
            "echo \"$HOME\"",
            "cat a > b",
            "python3 a.py && rm a.py",
            "python3",
            "python3 -i",
            "python3 -m http.server",
            "sudo ls",
            "bash",
            "echo a\necho b",
        ] {
            assert_eq!(of(line), None, "{line}");
        }
        assert_eq!(Command::of("bash", &[]), None);
    }

    proptest! {
        #[test]
        fn any_line_is_taken_or_not(line in "\\PC{0,60}") {
            if let Some(Command::Line(taken)) = of(&line) {
                prop_assert!(LINES.contains(&shlex::split(&taken).unwrap()[0].rsplit('/').next().unwrap()));
            }
        }
    }
}
