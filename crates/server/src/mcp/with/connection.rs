//! A connection to another server: made, asked for its tools, called.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use belljar::ToolError;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, ClientCapabilities, ClientConfig, Implementation,
    PaginatedRequestParams, ProtocolVersion, Tool,
};
use rmcp::service::{
    ClientInitializeError, ClientLifecycleMode, RunningService, serve_client_with_lifecycle,
};
use rmcp::transport::IntoTransport;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::{ClientHandler, Peer, RoleClient, ServiceError};
use serde_json::Value;

use super::answer::{arguments_of, value_of};
use super::child::{Allowance, Process, Said};
use super::error::WithError;
use super::file::{Entry, Reached};
use crate::mcp::text::lines_of;

/// How long a server has to be ready: some download themselves first.
const READY_TIME: Duration = Duration::from_mins(1);
/// The longest message that a server may send, in bytes.
const MAX_MESSAGE: usize = 16 << 20;
/// The most tools that one server may list.
const MAX_LISTED: usize = 1_000;
/// The most pages that such a list may have.
const MAX_PAGES: usize = 100;
/// The longest text of an error, in characters.
const MAX_ERROR: usize = 2_000;

/// A server that is connected.
pub(super) struct Connection {
    pub name: String,
    pub tools: Vec<Tool>,
    pub timeout: Duration,
    pub caller: Caller,
    said: Option<Said>,
    live: Mutex<Option<Live>>,
}

/// What ends with a connection.
struct Live {
    service: RunningService<RoleClient, Us>,
    process: Option<Process>,
}

/// What calls the tools of a server.
#[derive(Clone)]
pub(super) struct Caller {
    server: Arc<str>,
    peer: Peer<RoleClient>,
    allowance: Option<Allowance>,
}

impl Connection {
    /// Connects to a server, and asks it for its tools.
    pub(super) async fn to(entry: &Entry) -> Result<Self, WithError> {
        let (service, process, allowance) = match &entry.reached {
            Reached::Command { .. } => start(entry).await?,
            Reached::Url { url, .. } => {
                return Err(WithError::Url {
                    server: entry.name.clone(),
                    url: url.clone(),
                });
            }
        };
        let mut connection = Self {
            name: entry.name.clone(),
            tools: Vec::new(),
            timeout: entry.timeout,
            caller: Caller {
                server: entry.name.as_str().into(),
                peer: service.peer().clone(),
                allowance,
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
                    Ok(Err(error)) => WithError::Handshake {
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

    /// All tools, page by page.
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
        let Some(Live { service, process }) = live else {
            return;
        };
        // Dropped, the service stops and lets go of the streams, which tells the process to end.
        drop(service);
        if let Some(process) = process {
            process.end().await;
        }
    }
}

type Started = (RunningService<RoleClient, Us>, Option<Process>, Option<Allowance>);

/// Starts a process and greets it: as almost all servers want it first, and where that is refused as
/// those do that know nothing else than the newest revision.
async fn start(entry: &Entry) -> Result<Started, WithError> {
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
    /// It answered, and wants to be spoken to in another way.
    Refused(WithError),
    Otherwise(WithError),
}

async fn greet(entry: &Entry, mode: ClientLifecycleMode) -> Result<Started, Failed> {
    let Reached::Command {
        command,
        args,
        env,
        cwd,
    } = &entry.reached
    else {
        return Err(Failed::Otherwise(WithError::Entry {
            server: entry.name.clone(),
        }));
    };
    let server = || entry.name.clone();
    let started = Process::start(command, args, env, cwd.as_deref());
    let (process, stdout, stdin) = started.map_err(|source| {
        Failed::Otherwise(WithError::Start {
            server: server(),
            command: command.clone(),
            source,
        })
    })?;
    let said = process.said();
    let allowance = stdout.allowance();
    let transport = AsyncRwTransport::new_client(stdout, stdin).with_max_line_length(MAX_MESSAGE);
    let greeting = greeted(transport, mode);
    match tokio::time::timeout(READY_TIME, greeting).await {
        Ok(Ok(service)) => Ok((service, Some(process), Some(allowance))),
        Ok(Err(error)) => {
            let refused = matches!(error, ClientInitializeError::JsonRpcError(_));
            process.end().await;
            let error = WithError::Handshake {
                server: server(),
                why: lines_of(&error.to_string(), MAX_ERROR),
                said: said.text(),
            };
            Err(if refused {
                Failed::Refused(error)
            } else {
                Failed::Otherwise(error)
            })
        }
        Err(_) => {
            process.end().await;
            Err(Failed::Otherwise(slow(server(), said.text())))
        }
    }
}

pub(super) async fn greeted<T, E, A>(
    transport: T,
    mode: ClientLifecycleMode,
) -> Result<RunningService<RoleClient, Us>, ClientInitializeError>
where
    T: IntoTransport<RoleClient, E, A>,
    E: std::error::Error + Send + Sync + 'static,
{
    serve_client_with_lifecycle(Us, transport, mode).await
}

fn slow(server: String, said: String) -> WithError {
    WithError::Slow {
        server,
        seconds: READY_TIME.as_secs(),
        said,
    }
}

impl Caller {
    /// Calls a tool. Dropped, the call is cancelled.
    pub(super) async fn call(
        &self,
        tool: String,
        arguments: Value,
        is_wrapped: bool,
    ) -> Result<Value, ToolError> {
        if let Some(allowance) = &self.allowance {
            allowance.for_a_call();
        }
        let params = CallToolRequestParams::new(tool).with_arguments(arguments_of(arguments));
        match self.peer.call_tool_once(params).await {
            Ok(CallToolResponse::Complete(result)) => value_of(result, is_wrapped),
            Ok(_) => Err(ToolError::message(
                "the tool asks for more than its arguments, which nobody here can give",
            )),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn failed(&self, error: &ServiceError) -> ToolError {
        let server = &self.server;
        let is_spent = self.allowance.as_ref().is_some_and(Allowance::is_spent);
        ToolError::message(match error {
            ServiceError::McpError(error) => lines_of(&error.message, MAX_ERROR),
            _ if is_spent => format!("the server {server} sent far too much and was cut off"),
            ServiceError::TransportClosed | ServiceError::TransportSend(_) => {
                format!("the server {server} has ended")
            }
            other => format!("the server {server} failed: {}", lines_of(&other.to_string(), 200)),
        })
    }
}

/// Who we are to a server: somebody who has nobody to ask, no model and no files to offer.
pub(super) struct Us;

impl ClientHandler for Us {
    fn get_info(&self) -> ClientConfig {
        let us = Implementation::new("belljar", env!("CARGO_PKG_VERSION"));
        ClientConfig::new(ClientCapabilities::default(), us)
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }
}
