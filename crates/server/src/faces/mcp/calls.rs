//! Execution of tool calls.

use std::time::Duration;

use belljar::request::{Echo, ImageChoice, InputFile};
use belljar::{Interrupt, Request, SessionOptions};
use rmcp::RoleServer;
use rmcp::model::{CallToolResult, ContentBlock};
use rmcp::service::RequestContext;
use serde_json::{Value, json};

use super::arguments::{
    Call, CreateSession, GivenContent, GivenFile, Rewind, RunPython, WriteFile, Wrong,
};
use super::handler::Handler;
use super::progress::Teller;
use super::render::{Shown, images};
use super::revision;
use super::uri::Place;
use crate::service::error::ServiceError;
use crate::service::owner::Owner;
use crate::service::session_store::Access;

/// Default time limit of a run whose code can call other servers.
const TIME_WITH_SERVERS: Duration = Duration::from_mins(1);

/// Default limit of each output stream, in bytes. Models read it, and some clients give them the
/// whole outcome.
const MAX_OUTPUT: u64 = 256 << 10;
/// Maximum size of a table, in characters, for the same reason.
const MAX_TABLE: u32 = 4_000;

/// Why a call failed.
enum Failed {
    Service(ServiceError),
    Otherwise(String),
}

impl<E: Into<ServiceError>> From<E> for Failed {
    fn from(error: E) -> Self {
        Self::Service(error.into())
    }
}

impl Handler {
    /// Runs a tool call. Errors are part of the result, where the model sees them.
    pub(super) async fn call(
        &self,
        owner: &Owner,
        call: Call,
        context: &RequestContext<RoleServer>,
    ) -> CallToolResult {
        let done = match call {
            Call::Run(asked) => Box::pin(self.run(owner, asked, context)).await,
            Call::Create(asked) => self.create(owner, asked).await,
            Call::Fork(asked) => self.fork(owner, &asked.session_id).await,
            Call::Rewind(asked) => self.rewind(owner, &asked).await,
            Call::List => self.list(owner).await,
            Call::Delete(asked) => self.delete(owner, &asked.session_id).await,
            Call::Write(asked) => self.write(owner, &asked).await,
        };
        done.unwrap_or_else(|failed| match failed {
            Failed::Service(error) => Self::refused(&error_text(&error)),
            Failed::Otherwise(why) => Self::refused(&why),
        })
    }

    pub(super) fn refused(why: &str) -> CallToolResult {
        CallToolResult::error(vec![ContentBlock::text(why.to_owned())])
    }

    async fn run(
        &self,
        owner: &Owner,
        asked: RunPython,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Failed> {
        let shared = &self.shared;
        let has_links = revision::has_links(context);
        let interrupt = Interrupt::new();
        let mut request = self.request(owner, &asked).await?.interrupt(&interrupt);
        let token = context.meta.get_progress_token();
        let teller = token.map(|token| Teller::begin(context.peer.clone(), token));
        if let Some(teller) = &teller {
            request = request.watch(teller.watcher());
        }
        let cancelled = async {
            context.ct.cancelled().await;
            interrupt.interrupt();
            // The interrupt ends the run, and so drops this future.
            std::future::pending::<()>().await;
        };
        let Some(id) = asked.session_id else {
            let running = shared.service.run(owner, request);
            let run = tokio::select! {
                run = running => run?,
                () = cancelled => return Err(Failed::Otherwise("cancelled".into())),
            };
            drop(teller);
            let read = |path: &str| Some((path.to_owned(), run.read(path).ok()?));
            let images: Vec<_> = images(&run.outcome).into_iter().filter_map(read).collect();
            let (outcome, kept) = shared.service.keep(owner, run);
            let shown = Shown {
                outcome: &outcome,
                place: kept.map(Place::Run),
                has_links,
            };
            return Ok(shown.result(&images));
        };
        let at = shared.service.claim(owner, &id, Access::Run).await?;
        let running = shared.service.run_keeping_claim(owner, at, request);
        let (at, ran) = tokio::select! {
            ran = running => ran,
            () = cancelled => return Err(Failed::Otherwise("cancelled".into())),
        };
        drop(teller);
        let mut read = Vec::new();
        if let Ok(outcome) = &ran {
            for path in images(outcome) {
                if let Ok(bytes) = at.view().read(path).await {
                    read.push((path.to_owned(), bytes));
                }
            }
        }
        let ended = at.commit_run(&ran).await;
        let outcome = &ran?;
        ended?;
        let place = Some(Place::Session(id));
        let shown = Shown {
            outcome,
            place,
            has_links,
        };
        Ok(shown.result(&read))
    }

    /// Builds the request of a run.
    async fn request(&self, owner: &Owner, asked: &RunPython) -> Result<Request, Failed> {
        let options = &self.shared.options;
        let mut request = match asked.session_id {
            None => options.start.clone(),
            // The session has the other settings.
            Some(_) => Request::default(),
        };
        request.code.clone_from(&asked.code);
        request.echo = Some(Echo::Last);
        request.result_var.clone_from(&asked.result_var);
        request.limits.timeout = asked.timeout.or(options.limits().timeout);
        request.limits.output = options.limits().output.or(Some(MAX_OUTPUT));
        request.capture.dataframe_chars = MAX_TABLE;
        if let Some(functions) = &options.functions {
            request.tools.extend(functions.tools.iter().cloned());
            request.limits.timeout = request.limits.timeout.or(Some(TIME_WITH_SERVERS));
        }
        for file in &asked.files {
            request.files.push(self.file(owner, file).await?);
        }
        Ok(request)
    }

    async fn file(&self, owner: &Owner, file: &GivenFile) -> Result<InputFile, Failed> {
        let bytes = match &file.content {
            GivenContent::Bytes(bytes) => bytes.clone(),
            GivenContent::Resource(uri) => {
                let read = self.bytes(owner, uri).await;
                read.map_err(|error| {
                    Failed::Otherwise(format!("{}: {}", file.path, error.message))
                })?
            }
        };
        Ok(InputFile::new(file.path.clone(), bytes))
    }

    async fn create(&self, owner: &Owner, asked: CreateSession) -> Result<CallToolResult, Failed> {
        let mut start = self.shared.options.start.clone();
        if let Some(image) = asked.image {
            start.image = ImageChoice::Named(image);
        } else if start.image == ImageChoice::Auto {
            start.image = ImageChoice::Named("data".into());
        }
        let options = SessionOptions::from_request(start);
        let session = Box::pin(self.shared.service.start(owner, options.into())).await?;
        let image = session.view().info().image;
        Ok(said(
            format!("session_id: {}", session.id()),
            json!({"session_id": session.id(), "image": image}),
        ))
    }

    async fn fork(&self, owner: &Owner, id: &str) -> Result<CallToolResult, Failed> {
        let service = &self.shared.service;
        let at = service.claim(owner, id, Access::Read).await?;
        let forked = service.fork_of(owner, &at, None).await?;
        Ok(said(
            format!("session_id: {}", forked.id()),
            json!({"session_id": forked.id(), "forked_from": id}),
        ))
    }

    async fn rewind(&self, owner: &Owner, asked: &Rewind) -> Result<CallToolResult, Failed> {
        let at = self.shared.service.claim(owner, &asked.session_id, Access::Change).await?;
        at.view().rewind(asked.to).await?;
        let id = at.id().to_owned();
        at.commit().await?;
        Ok(said(
            format!("session {id} is now in its state after run {}", asked.to),
            json!({"session_id": id, "execution": asked.to}),
        ))
    }

    async fn list(&self, owner: &Owner) -> Result<CallToolResult, Failed> {
        let service = &self.shared.service;
        let sessions = service.list(owner).await?;
        let listed: Vec<Value> = sessions
            .iter()
            .map(|one| {
                json!({
                    "session_id": one.id,
                    "name": one.name,
                    "image": one.image,
                    "status": one.status,
                })
            })
            .collect();
        let lines: Vec<String> = listed
            .iter()
            .map(|one| {
                format!(
                    "{} ({}, {})",
                    text(one, "session_id"),
                    text(one, "image"),
                    text(one, "status")
                )
            })
            .collect();
        let lines = if lines.is_empty() {
            "no sessions".to_owned()
        } else {
            lines.join("\n")
        };
        Ok(said(lines, json!({"sessions": listed})))
    }

    async fn delete(&self, owner: &Owner, id: &str) -> Result<CallToolResult, Failed> {
        self.shared.service.end(owner, id).await?;
        Ok(said(format!("session {id} is deleted"), json!({"session_id": id})))
    }

    async fn write(&self, owner: &Owner, asked: &WriteFile) -> Result<CallToolResult, Failed> {
        let bytes = asked.bytes().map_err(|wrong| match wrong {
            Wrong::Arguments(why) => Failed::Otherwise(format!("write_file: {why}")),
            Wrong::Tool => Failed::Otherwise("write_file".into()),
        })?;
        let at = self.shared.service.claim(owner, &asked.session_id, Access::Write).await?;
        let written = at.view().workspace().write(&asked.path, std::io::Cursor::new(bytes)).await?;
        let uri = Place::Session(at.id().to_owned()).uri_of(&written.path);
        at.commit().await?;
        Ok(said(
            format!("{}: {} bytes", written.path, written.size),
            json!({"path": written.path, "size": written.size, "uri": uri}),
        ))
    }
}

fn said(text: String, structured: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(text)]);
    result.structured_content = Some(structured);
    result
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// An error with its causes and hint.
fn error_text(error: &ServiceError) -> String {
    let mut text = error.to_string();
    if let ServiceError::Engine(belljar::Error::Refused(refusal)) = error {
        let reasons: Vec<&str> =
            refusal.reasons.iter().map(|reason| reason.message.as_str()).collect();
        text = reasons.join("\n");
    }
    if let ServiceError::Limit {
        retry_after: Some(wait),
        ..
    } = error
    {
        text = format!("{text}; retry in {} s", wait.as_secs().max(1));
    }
    match error.hint() {
        Some(hint) => format!("{text}\nHint: {hint}"),
        None => text,
    }
}
