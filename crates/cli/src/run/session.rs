//! A run in a session that is kept in a file.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use belljar::Outcome;

use super::summary::Files;
use super::{Task, report, watch};
use crate::engine;
use crate::exit::Exit;
use crate::input::ask_person;
use crate::printer::Printer;
use crate::session_file::SessionFile;

/// Runs in the session at `path`, and saves it.
pub(super) fn run(task: Task<'_>, path: &Path) -> anyhow::Result<Exit> {
    let Task {
        runtime,
        mut request,
        live,
        can_ask,
        json,
        receipt: _,
        out,
        printer,
    } = task;
    let ran = watch(&live, async || {
        let file = claim(path, printer).await?;
        let (session, _) = file.open(&runtime, &mut request).await?;
        let request = if can_ask {
            ask_person(request, printer)
        } else {
            request
        };
        let outcome = session.run(request).await?;
        Ok((file, session, outcome))
    })?;
    let (file, session, outcome) = match ran {
        ControlFlow::Continue(done) => done,
        ControlFlow::Break(exit) => return Ok(exit),
    };
    // The run is over and can no longer be cancelled.
    let (saved, copied) = engine::reactor()?.block_on(async {
        let saved = file.save(&session).await;
        let copied = match out {
            Some(dir) => session.copy_to(&outcome.files, dir).await.map(Some),
            None => Ok(None),
        };
        (saved, copied)
    });
    session.close();
    // Removes the session's files on disk.
    drop((file, session, runtime));
    let files = Files::of(out, &copied).unwrap_or(Files::Kept(path));
    report(printer, &outcome, json, files)?;
    if !json {
        restarted(&outcome, path, printer);
    }
    let name = path.display();
    saved.with_context(|| format!("the run is done, but {name} keeps the state before it"))?;
    copied.context("the run is done, but its files could not all be copied")?;
    Ok(if outcome.success {
        Exit::Success
    } else {
        Exit::Found
    })
}

/// Waits for the file on a separate thread, so that Ctrl-C can end the waiting.
async fn claim(path: &Path, printer: &Arc<Printer>) -> anyhow::Result<SessionFile> {
    let (path, printer) = (path.to_owned(), Arc::clone(printer));
    let claiming = tokio::task::spawn_blocking(move || SessionFile::wait_for(&path, &printer));
    Ok(claiming.await.context("cannot wait on a thread")??)
}

/// Reports that the run did not change the session.
pub(super) fn restarted(outcome: &Outcome, path: &Path, printer: &Printer) {
    let lost = outcome.session.as_ref().is_some_and(|session| session.interpreter_restarted);
    if lost {
        printer.note(&format!(
            "the interpreter was lost: {} keeps the state before this run",
            path.display()
        ));
    }
}
