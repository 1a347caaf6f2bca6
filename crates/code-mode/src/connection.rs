//! Connects to a server, lists its tools and calls them.

use std::error::Error;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar::tool::ToolError;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams, ProtocolVersion, Tool,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle,
};
use rmcp::transport::IntoTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::streamable_http_client::StreamableHttpError;
use rmcp::{ClientHandler, Peer, RoleClient, ServiceError};
use serde_json::Value;

use super::allowance::{Allowance, MAX_MESSAGE, READY_TIME};
use super::answer::{arguments_of, value_of};
use super::child::{Process, Said};
use super::client::{HttpClient, HttpError};
use super::error::ConnectError;
use super::file::{Entry, Reached};
use super::remote::Remote;
use belljar_text::lines_of;

/// Maximum number of tools per server.
const MAX_LISTED: usize = 1_000;
/// Maximum number of pages in a tool list.
const MAX_PAGES: usize = 100;
/// How long a server has to end its session.
const GOODBYE: Duration = Duration::from_secs(1);
/// Maximum length of an error text, in characters.
const MAX_ERROR: usize = 2_000;

/// A connected server.
pub(super) struct Connection {
    pub name: String,
    pub tools: Vec<Tool>,
    pub timeout: Duration,
    pub caller: Caller,
    said: Option<Said>,
    live: Mutex<Option<Live>>,
}

/// Resources that end with a connection.
struct Live {
    service: RunningService<RoleClient, Us>,
    process: Option<Process>,
}

/// Calls the tools of a server.
#[derive(Clone)]
pub(super) struct Caller {
    server: Arc<str>,
    peer: Peer<RoleClient>,
    allowance: Allowance,
    /// Whether the server is remote. Over HTTP, an interrupted response does not mean that the
    /// server has ended.
    is_remote: bool,
}

impl Connection {
    /// Connects to a server and lists its tools.
    pub(super) async fn to(entry: &Entry) -> Result<Self, ConnectError> {
        let (service, process, allowance) = start(entry).await?;
        let mut connection = Self {
            name: entry.name.clone(),
            tools: Vec::new(),
            timeout: entry.timeout,
            caller: Caller {
                server: entry.name.as_str().into(),
                peer: service.peer().clone(),
                allowance,
                is_remote: process.is_none(),
            },
            said: process.as_ref().map(Process::said),
            live: Mutex::new(Some(Live { service, process })),
        };
        match tokio::time::timeout(READY_TIME, connection.list()).await {
            Ok(Ok(tools)) => connection.tools = tools,
            failed => {
                let said = connection.said();
                connection.close().await;
                let server = entry.name.clone();
                return Err(match failed {
                    Ok(Err(error)) => ConnectError::Handshake {
                        server,
                        why: lines_of(&error.to_string(), MAX_ERROR),
                        said,
                    },
                    _ => slow(server, said),
                });
            }
        }
        Ok(connection)
    }

    /// Fetches all pages of the tool list.
    async fn list(&self) -> Result<Vec<Tool>, ServiceError> {
        let mut tools = Vec::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let page = PaginatedRequestParams::default().with_cursor(cursor.take());
            let listed = self.caller.peer.list_tools(Some(page)).await?;
            tools.extend(listed.tools);
            cursor = listed.next_cursor;
            if cursor.is_none() || tools.len() > MAX_LISTED {
                break;
            }
        }
        tools.truncate(MAX_LISTED);
        Ok(tools)
    }

    fn said(&self) -> String {
        self.said.as_ref().map(Said::text).unwrap_or_default()
    }

    /// Ends the connection, and the process if there is one.
    pub(super) async fn close(&self) {
        let live = self.live.lock().unwrap_or_else(PoisonError::into_inner).take();
        match live {
            // Dropping the service closes the streams, which tells the process to exit.
            Some(Live {
                service,
                process: Some(process),
            }) => {
                drop(service);
                process.end().await;
            }
            Some(Live { mut service, .. }) => drop(service.close_with_timeout(GOODBYE).await),
            None => {}
        }
    }
}

type Started = (RunningService<RoleClient, Us>, Option<Process>, Allowance);

/// Connects to a server and initializes the session. Tries the handshake of most servers first,
/// then that of servers that support only the newest revision.
async fn start(entry: &Entry) -> Result<Started, ConnectError> {
    let discover = ClientLifecycleMode::Discover {
        preferred_versions: vec![ProtocolVersion::V_2026_07_28],
    };
    match greet(entry, ClientLifecycleMode::Initialize).await {
        Err(Failed::Refused(first)) => match greet(entry, discover).await {
            Ok(started) => Ok(started),
            Err(_) => Err(first),
        },
        Err(Failed::Otherwise(error)) => Err(error),
        Ok(started) => Ok(started),
    }
}

enum Failed {
    /// The server responded and requires the other handshake.
    Refused(ConnectError),
    Otherwise(ConnectError),
}

async fn greet(entry: &Entry, mode: ClientLifecycleMode) -> Result<Started, Failed> {
    match &entry.reached {
        Reached::Command { .. } => greet_process(entry, mode).await,
        Reached::Url(remote) => greet_remote(entry, remote, mode).await,
    }
}

async fn greet_remote(
    entry: &Entry,
    remote: &Remote,
    mode: ClientLifecycleMode,
) -> Result<Started, Failed> {
    let allowance = Allowance::first();
    let transport = HttpClient::transport(remote, entry.timeout, allowance.clone());
    let transport = transport.map_err(|error| {
        Failed::Otherwise(ConnectError::Url {
            server: entry.name.clone(),
            why: error.to_string(),
        })
    })?;
    match tokio::time::timeout(READY_TIME, greeted(transport, mode)).await {
        Ok(Ok(service)) => Ok((service, None, allowance)),
        Ok(Err(error)) => Err(Failed::of(entry, &error, String::new())),
        Err(_) => Err(Failed::Otherwise(slow(entry.name.clone(), String::new()))),
    }
}

async fn greet_process(entry: &Entry, mode: ClientLifecycleMode) -> Result<Started, Failed> {
    let Reached::Command {
        command,
        args,
        env,
        cwd,
    } = &entry.reached
    else {
        return Err(Failed::Otherwise(ConnectError::Entry {
            server: entry.name.clone(),
        }));
    };
    let started = Process::start(command, args, env, cwd.as_deref());
    let (process, stdout, stdin) = started.map_err(|source| {
        Failed::Otherwise(ConnectError::Start {
            server: entry.name.clone(),
            command: command.clone(),
            source,
        })
    })?;
    let said = process.said();
    let allowance = stdout.allowance();
    let transport = AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MAX_MESSAGE);
    match tokio::time::timeout(READY_TIME, greeted(transport, mode)).await {
        Ok(Ok(service)) => Ok((service, Some(process), allowance)),
        Ok(Err(error)) => {
            process.end().await;
            Err(Failed::of(entry, &error, said.text()))
        }
        Err(_) => {
            process.end().await;
            Err(Failed::Otherwise(slow(entry.name.clone(), said.text())))
        }
    }
}

impl Failed {
    fn of(entry: &Entry, error: &ClientInitializeError, said: String) -> Self {
        let refused = matches!(error, ClientInitializeError::JsonRpcError(_));
        let why = match error {
            ClientInitializeError::TransportError { error, .. } => http_error(&*error.error),
            _ => None,
        };
        let error = ConnectError::Handshake {
            server: entry.name.clone(),
            why: lines_of(&why.unwrap_or_else(|| error.to_string()), MAX_ERROR),
            said,
        };
        if refused {
            Self::Refused(error)
        } else {
            Self::Otherwise(error)
        }
    }
}

/// The HTTP error inside a transport error, if any.
fn http_error(error: &(dyn Error + 'static)) -> Option<String> {
    let StreamableHttpError::<HttpError>::Client(error) = error.downcast_ref()? else {
        return None;
    };
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let said = error.to_string();
        text = format!("{text}: {said}");
        cause = error.source();
    }
    Some(text)
}

pub(super) async fn greeted<T, E, A>(
    transport: T,
    mode: ClientLifecycleMode,
) -> Result<RunningService<RoleClient, Us>, ClientInitializeError>
where
    T: IntoTransport<RoleClient, E, A>,
    E: Error + Send + Sync + 'static,
{
    serve_client_with_lifecycle(Us, transport, mode).await
}

fn slow(server: String, said: String) -> ConnectError {
    ConnectError::Slow {
        server,
        seconds: READY_TIME.as_secs(),
        said,
    }
}

impl Caller {
    /// Calls a tool. Dropping the future cancels the call.
    pub(super) async fn call(
        &self,
        tool: String,
        arguments: Value,
        is_wrapped: bool,
    ) -> Result<Value, ToolError> {
        self.allowance.for_a_call();
        let params = CallToolRequestParams::new(tool).with_arguments(arguments_of(arguments));
        match self.peer.call_tool_once(params).await {
            Ok(CallToolResponse::Complete(result)) => value_of(result, is_wrapped),
            Ok(_) => {
                Err(ToolError::message("the tool requests user input, which is not supported"))
            }
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &ServiceError) -> ToolError {
        let server = &self.server;
        let on_the_way = match error {
            ServiceError::TransportSend(error) => http_error(&*error.error),
            _ => None,
        };
        ToolError::message(match error {
            ServiceError::McpError(error) => lines_of(&error.message, MAX_ERROR),
            _ if self.allowance.is_spent() => {
                format!("the server {server} sent too much data and was cut off")
            }
            _ if let Some(why) = on_the_way => {
                format!("the server {server} failed: {}", lines_of(&why, 500))
            }
            ServiceError::TransportClosed if self.is_remote => {
                format!("the server {server} failed: the response ended early")
            }
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                format!("the server {server} has ended")
            }
            other => format!("the server {server} failed: {}", lines_of(&other.to_string(), 200)),
        })
    }
}

/// The MCP client: without elicitation, sampling or roots.
pub(super) struct Us;

impl ClientHandler for Us {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("belljar", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }
}
