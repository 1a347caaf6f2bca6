//! Input lines: edited on a terminal, or read from a pipe.
//!
//! Read on a separate thread, so that signals are handled while waiting for input.

use std::io::{self, BufRead};
use std::path::PathBuf;
use std::sync::mpsc;

use rustyline::error::ReadlineError;
use rustyline::history::DefaultHistory;
use rustyline::{CompletionType, Config, Editor};
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::complete::{Completion, Scope};

/// Maximum number of history entries.
const HISTORY: usize = 5_000;

/// Input at the prompt: a line, an interrupt, or the end.
#[derive(Debug)]
pub(super) enum Entered {
    Text(String),
    /// Ctrl-C: the line is discarded.
    Cleared,
    /// Ctrl-D, or the end of the input.
    End,
}

/// A request for a line.
pub(super) struct Ask {
    pub prompt: String,
    /// Initial text of the line, which the user can change.
    pub indent: String,
    /// An entry to add to the history first.
    pub remember: Option<String>,
    /// Where names are completed from.
    pub scope: Scope,
}

/// The source of lines.
#[derive(Debug)]
pub(super) struct Lines {
    asks: mpsc::Sender<Ask>,
    entered: UnboundedReceiver<io::Result<Entered>>,
    #[cfg(unix)]
    terminal: Option<rustix::termios::Termios>,
}

impl Lines {
    /// Lines edited on the terminal, completed with the sessions' answers on `reactor`.
    pub(super) fn typed(reactor: Handle) -> io::Result<Self> {
        #[cfg(unix)]
        let terminal = rustix::termios::tcgetattr(io::stdin()).ok();
        let (asks, entered) = start(move |asks, entered| {
            let mut typed = match Typed::new(reactor) {
                Ok(typed) => typed,
                Err(error) => {
                    let _ = entered.send(Err(failure(error)));
                    return;
                }
            };
            serve(asks, &entered, |ask| typed.read(ask));
        })?;
        Ok(Self {
            asks,
            entered,
            #[cfg(unix)]
            terminal,
        })
    }

    /// Lines of standard input.
    pub(super) fn piped() -> io::Result<Self> {
        let (asks, entered) = start(|asks, entered| serve(asks, &entered, |_| read_line()))?;
        Ok(Self {
            asks,
            entered,
            #[cfg(unix)]
            terminal: None,
        })
    }

    /// The next line.
    pub(super) async fn next(&mut self, ask: Ask) -> io::Result<Entered> {
        // If the thread has ended, its last message says why.
        let _ = self.asks.send(ask);
        self.entered.recv().await.unwrap_or(Ok(Entered::End))
    }
}

#[cfg(unix)]
impl Drop for Lines {
    fn drop(&mut self) {
        // A signal may end the command while the thread has changed the terminal's mode.
        if let Some(terminal) = &self.terminal {
            let now = rustix::termios::OptionalActions::Now;
            let _ = rustix::termios::tcsetattr(io::stdin(), now, terminal);
        }
    }
}

type Answers = UnboundedSender<io::Result<Entered>>;
type Ends = (mpsc::Sender<Ask>, UnboundedReceiver<io::Result<Entered>>);

fn start(body: impl FnOnce(mpsc::Receiver<Ask>, Answers) + Send + 'static) -> io::Result<Ends> {
    let (asks, asked) = mpsc::channel();
    let (answers, entered) = unbounded_channel();
    // Detached: ends with the process at the latest.
    std::thread::Builder::new().name("lines".to_owned()).spawn(move || body(asked, answers))?;
    Ok((asks, entered))
}

fn serve(
    asks: mpsc::Receiver<Ask>,
    entered: &Answers,
    mut read: impl FnMut(Ask) -> io::Result<Entered>,
) {
    for ask in asks {
        if entered.send(read(ask)).is_err() {
            return;
        }
    }
}

fn read_line() -> io::Result<Entered> {
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Ok(Entered::End);
    }
    let line = line.strip_suffix('\n').unwrap_or(&line);
    Ok(Entered::Text(line.strip_suffix('\r').unwrap_or(line).to_owned()))
}

/// A terminal with a line editor and its history.
struct Typed {
    editor: Editor<Completion, DefaultHistory>,
    history: Option<PathBuf>,
}

impl Typed {
    fn new(reactor: Handle) -> rustyline::Result<Self> {
        let config = Config::builder()
            .max_history_size(HISTORY)?
            .completion_type(CompletionType::List)
            .tab_stop(4)
            .build();
        let mut editor = Editor::with_config(config)?;
        editor.set_helper(Some(Completion::new(reactor)));
        let history = history_file();
        if let Some(file) = &history {
            // The first session has no history.
            let _ = editor.load_history(file);
        }
        Ok(Self { editor, history })
    }

    fn read(&mut self, ask: Ask) -> io::Result<Entered> {
        if let Some(entry) = ask.remember {
            self.remember(entry);
        }
        if let Some(completion) = self.editor.helper_mut() {
            completion.look_in(ask.scope);
        }
        match self.editor.readline_with_initial(ask.prompt.as_str(), (&ask.indent, "")) {
            Ok(line) => Ok(Entered::Text(line)),
            Err(ReadlineError::Interrupted) => Ok(Entered::Cleared),
            Err(ReadlineError::Eof) => Ok(Entered::End),
            Err(error) => Err(failure(error)),
        }
    }

    /// Adds an entry to the history. Failures are ignored.
    fn remember(&mut self, entry: String) {
        let added = self.editor.add_history_entry(entry).unwrap_or(false);
        if let Some(file) = self.history.as_ref().filter(|_| added) {
            let _ = self.editor.append_history(file);
        }
    }
}

fn failure(error: ReadlineError) -> io::Error {
    match error {
        ReadlineError::Io(error) => error,
        other => io::Error::other(other),
    }
}

/// The history file, in the platform's state directory, private to the user.
pub(super) fn history_file() -> Option<PathBuf> {
    let dirs = directories::ProjectDirs::from("", "", "belljar")?;
    let dir = dirs.state_dir().unwrap_or_else(|| dirs.data_local_dir());
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(dir).ok()?;
    Some(dir.join("history"))
}
