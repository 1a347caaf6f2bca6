//! `belljar repl`: an interactive session.

mod act;
mod block;
mod command;
mod complete;
mod figures;
mod lines;
mod named;
mod options;
mod seat;
mod show;

use std::io::IsTerminal;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::Context;
use belljar::{Outcome, Request, Runtime};

use super::args::Global;
use super::exit::{self, Exit, Usage};
use super::interrupt::Interrupt;
use super::options::directory;
use super::printer::{OutputError, Printer, Tone};
use super::run::Live;
use super::session_file::SessionFile;
use super::text::plain;
use super::{engine, source};
use block::{Block, is_idle};
use command::Command;
use complete::Scope;
use figures::Figures;
use lines::{Ask, Entered, Lines};
use named::Named;
pub(super) use options::ReplArgs;
use seat::{Place, Seat};

/// Reads lines and runs them until the user leaves.
pub(super) fn repl(
    args: ReplArgs,
    global: &Global,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    #[cfg(feature = "server")]
    let link = args.link(global)?;
    let request = args.request()?;
    directory(&args.out)?;
    #[cfg(feature = "server")]
    if let Some(link) = link {
        return talk(Place::Elsewhere(Arc::new(link)), request, args, printer);
    }
    let runtime = engine::start(global, printer)?;
    engine::prepare(&runtime, &request, args.session.as_deref())?;
    lock(&runtime, &request, &args, printer)?;
    talk(Place::Here(runtime), request, args, printer)
}

/// Locks this process down.
fn lock(
    runtime: &Runtime,
    request: &Request,
    args: &ReplArgs,
    printer: &Arc<Printer>,
) -> anyhow::Result<()> {
    if let Some(locking) = args.lockdown.begin(runtime, printer) {
        // %checkpoint, %restore and %save name files by paths that are relative to it.
        let mut locking = locking.keep_inputs(request).keep_directory(Path::new("."));
        if let Some(session) = &args.session {
            locking = locking.keep_replaced(session);
        }
        if args.out.is_absolute() || args.out.starts_with("..") {
            std::fs::create_dir_all(&args.out)
                .with_context(|| format!("cannot create {}", args.out.display()))?;
            locking = locking.keep_directory(&args.out);
        }
        if let Some(history) = lines::history_file() {
            locking = locking.keep_replaced(&history);
        }
        locking.lock()?;
    }
    Ok(())
}

/// Talks with the user until they leave.
fn talk(
    place: Place,
    request: Request,
    args: ReplArgs,
    printer: &Arc<Printer>,
) -> anyhow::Result<Exit> {
    let reactor = engine::reactor()?;
    let foreground = Arc::new(Foreground::default());
    let interrupt = {
        let foreground = Arc::clone(&foreground);
        Interrupt::watch_except(move || foreground.interrupt())
    };
    let ended = reactor.block_on(async {
        let opened = tokio::select! {
            biased;
            exit = interrupt.arrived() => return Ok(exit),
            opened = place.open(request, &args, printer) => opened?,
        };
        let (file, session, request) = opened;
        let mut repl = Repl {
            sessions: Named::new(session),
            completing: None,
            place,
            request,
            figures: Figures::new(args.out),
            is_typed: std::io::stdin().is_terminal() && printer.out_is_terminal(),
            file,
            foreground,
            interrupt,
            printer,
        };
        let talked = repl.talk().await;
        repl.leave(talked).await
    });
    // Do not wait for a thread that waits for a file or a line.
    reactor.shutdown_background();
    ended
}

/// The target of Ctrl-C.
#[derive(Default)]
struct Foreground {
    running: Mutex<Option<Seat>>,
    /// At a terminal, Ctrl-C stops running code but never the prompt.
    is_typed: AtomicBool,
}

impl Foreground {
    /// Interrupts running code. Returns false if Ctrl-C is to end the command.
    fn interrupt(&self) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        let interrupted = running.as_ref().is_some_and(Seat::interrupt);
        interrupted || self.is_typed.load(Ordering::Relaxed)
    }

    fn set(&self, session: Option<&Seat>) {
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = session.cloned();
    }
}

/// A prompt and its sessions.
struct Repl<'a> {
    place: Place,
    sessions: Named,
    /// The session that completes the current line.
    completing: Option<Arc<Seat>>,
    /// The options for each line, without code.
    request: Request,
    figures: Figures,
    /// Whether input comes from a terminal.
    is_typed: bool,
    file: Option<SessionFile>,
    foreground: Arc<Foreground>,
    interrupt: Arc<Interrupt>,
    printer: &'a Arc<Printer>,
}

impl Repl<'_> {
    /// Reads and runs until the end of the input.
    async fn talk(&mut self) -> anyhow::Result<Exit> {
        let mut lines = self.lines().context("cannot read lines")?;
        let mut block = Block::default();
        let mut remember = None;
        loop {
            let ask = self.ask(&block, remember.take());
            let entered = tokio::select! {
                biased;
                exit = self.interrupt.arrived() => return Ok(exit),
                entered = lines.next(ask) => {
                    entered.map_err(|e| source::unreadable("standard input", e))?
                }
            };
            let code = match entered {
                Entered::Cleared => {
                    block.clear();
                    continue;
                }
                Entered::End if block.is_empty() => {
                    if self.is_typed {
                        self.printer.line("")?;
                    }
                    return Ok(Exit::Success);
                }
                Entered::End => block.take(),
                Entered::Text(line) if block.is_empty() && Command::leaves(&line) => {
                    return Ok(Exit::Success);
                }
                Entered::Text(line) if block.is_empty() && Command::begins(&line) => {
                    remember = Some(line.clone());
                    match self.command(&line).await? {
                        ControlFlow::Continue(()) => continue,
                        ControlFlow::Break(exit) => return Ok(exit),
                    }
                }
                Entered::Text(line) => match block.push(&line) {
                    Some(code) => code,
                    None => continue,
                },
            };
            if is_idle(&code) {
                continue;
            }
            remember = Some(code.trim_end().to_owned());
            if let ControlFlow::Break(exit) = self.execute(code).await? {
                return Ok(exit);
            }
        }
    }

    fn lines(&self) -> std::io::Result<Lines> {
        if !self.is_typed {
            return Lines::piped();
        }
        self.foreground.is_typed.store(true, Ordering::Relaxed);
        self.printer.note(&format!(
            "belljar {}, image {}; %help lists the commands",
            env!("CARGO_PKG_VERSION"),
            self.sessions.current().image()
        ));
        Lines::typed(tokio::runtime::Handle::current())
    }

    fn ask(&mut self, block: &Block, remember: Option<String>) -> Ask {
        let name = if self.sessions.is_only() {
            String::new()
        } else {
            format!("[{}] ", plain(self.sessions.name()))
        };
        let session = Arc::new(self.sessions.current().clone());
        let weak = Arc::downgrade(&session);
        self.completing = Some(session);
        Ask {
            prompt: format!("{name}{}", if block.is_empty() { ">>> " } else { "... " }),
            indent: block.indent(),
            remember,
            scope: Scope {
                session: weak,
                names: self.sessions.iter().map(|(name, ..)| name.to_owned()).collect(),
                earlier: block.text().to_owned(),
            },
        }
    }

    /// Runs a command. Errors are printed and have no other effect.
    async fn command(&mut self, line: &str) -> anyhow::Result<ControlFlow<Exit>> {
        let done = match Command::read(line) {
            Ok(Command::Quit) => return Ok(ControlFlow::Break(Exit::Success)),
            Ok(Command::Time(code)) => return self.time(code).await,
            Ok(command) => self.act(command).await,
            Err(error) => Err(error.into()),
        };
        self.survive(done.err())?;
        Ok(ControlFlow::Continue(()))
    }

    /// Runs code and shows the outcome.
    async fn execute(&mut self, code: String) -> anyhow::Result<ControlFlow<Exit>> {
        Ok(match self.run(code).await? {
            ControlFlow::Continue(_) => ControlFlow::Continue(()),
            ControlFlow::Break(exit) => ControlFlow::Break(exit),
        })
    }

    /// Runs code and shows the time it took.
    async fn time(&mut self, code: String) -> anyhow::Result<ControlFlow<Exit>> {
        match self.run(code).await? {
            ControlFlow::Break(exit) => return Ok(ControlFlow::Break(exit)),
            ControlFlow::Continue(Some(outcome)) => self.printer.line(&show::time(&outcome))?,
            ControlFlow::Continue(None) => {}
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Runs code. Returns the outcome, or prints the engine's error.
    async fn run(&mut self, code: String) -> anyhow::Result<ControlFlow<Exit, Option<Outcome>>> {
        let session = self.sessions.current().clone();
        let live = Arc::new(Live::new(Arc::clone(self.printer)));
        let mut request = self.request.clone();
        request.code = code;
        self.foreground.set(Some(&session));
        let ran = tokio::select! {
            biased;
            exit = self.interrupt.arrived() => return Ok(ControlFlow::Break(exit)),
            error = live.failed() => return Err(error),
            ran = session.run(request, &live, self.is_typed, self.printer) => ran,
        };
        self.foreground.set(None);
        if let Some(error) = live.take() {
            return Err(error);
        }
        let outcome = match ran {
            Ok(outcome) => outcome,
            Err(error) => {
                self.survive(Some(error))?;
                return Ok(ControlFlow::Continue(None));
            }
        };
        self.printer.end_line()?;
        // From now on, what the session was given along with its state is part of it.
        self.request.files.clear();
        self.request.env.clear();
        show::outcome(self.printer, &outcome);
        match self.figures.save(&session, &outcome).await {
            Ok(saved) => show::figures(self.printer, &saved),
            Err(error) => self.survive(Some(error))?,
        }
        Ok(ControlFlow::Continue(Some(outcome)))
    }

    /// Prints an error and continues, unless the output is closed.
    fn survive(&self, error: Option<anyhow::Error>) -> anyhow::Result<()> {
        match error {
            Some(error) if error.is::<OutputError>() => Err(error),
            Some(error) => {
                exit::report(self.printer, &error);
                Ok(())
            }
            None => Ok(()),
        }
    }

    /// Saves the session to its file, and ends all sessions.
    async fn leave(self, talked: anyhow::Result<Exit>) -> anyhow::Result<Exit> {
        self.foreground.set(None);
        let session = self.sessions.current();
        let saved = match &self.file {
            Some(file) => {
                let name = file.path().display();
                let saved = session.checkpoint(file).await;
                if saved.is_ok() {
                    let note = format!("saved {} to {name}", self.sessions.name());
                    self.printer.note(&self.printer.paint_note(Tone::Faint, &note));
                }
                saved.with_context(|| format!("{name} keeps the state before"))
            }
            None => Ok(()),
        };
        self.sessions.end().await;
        let exit = talked?;
        saved?;
        Ok(exit)
    }

    /// Opens a session file, or returns `None` if this prompt already holds it.
    fn claim(&self, path: &Path) -> Result<Option<SessionFile>, Usage> {
        match &self.file {
            Some(file) if file.is(path) => Ok(None),
            _ => Ok(Some(SessionFile::take(path)?)),
        }
    }
}
