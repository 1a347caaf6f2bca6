//! Commands of the prompt.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;

use super::command::{COMMANDS, Command, usage};
use super::{Repl, show};
use crate::exit::Usage;
use crate::text::{count, plain, size, table};

impl Repl<'_> {
    pub(super) async fn act(&mut self, command: Command) -> anyhow::Result<()> {
        match command {
            Command::Fork(name) => self.fork(name).await,
            Command::Sessions => self.list_sessions().await,
            Command::Switch(name) => self.switch(&name).await,
            Command::Rewind(execution) => self.rewind(execution).await,
            Command::Reset => self.rewind(0).await,
            Command::History => self.history().await,
            Command::Checkpoint(path) => self.checkpoint(&path).await,
            Command::Restore(path) => self.restore(&path).await,
            Command::Files => self.list_files().await,
            Command::Save(path, to) => self.save(&path, to).await,
            Command::Limits => self.limits(),
            Command::Help => self.help(),
            Command::Inspect { name, detail } => self.inspect(&name, detail).await,
            // The caller handles these two.
            Command::Time(_) | Command::Quit => Ok(()),
        }
    }

    async fn fork(&mut self, name: Option<String>) -> anyhow::Result<()> {
        let name = self.sessions.free_name(name, "fork")?;
        let left = self.sessions.name().to_owned();
        let fork = self.sessions.current().fork().await?;
        self.printer.note(&format!("now in {}; %switch {} goes back", plain(&name), plain(&left)));
        self.sessions.add(name, fork);
        Ok(())
    }

    async fn list_sessions(&self) -> anyhow::Result<()> {
        let mut rows = Vec::new();
        for (name, session, is_current) in self.sessions.iter() {
            let mark = if is_current { "*" } else { "" };
            let runs = count(session.execution().await?, "run");
            rows.push([mark.to_owned(), plain(name), runs, session.image()]);
        }
        self.lines_of(&table(&rows))
    }

    async fn switch(&mut self, name: &str) -> anyhow::Result<()> {
        self.sessions.switch(name)?;
        let runs = count(self.sessions.current().execution().await?, "run");
        self.printer.note(&format!("now in {}, after {runs}", plain(name)));
        Ok(())
    }

    async fn rewind(&mut self, execution: u64) -> anyhow::Result<()> {
        let session = self.sessions.current();
        let before = session.execution().await?;
        session.rewind(execution, self.sessions.name()).await?;
        let forgotten = count(before.saturating_sub(execution), "run");
        self.printer.note(&match execution {
            0 => format!("back at the beginning; forgot {forgotten}"),
            n => format!("back in the state after run {n}; forgot {forgotten}"),
        });
        Ok(())
    }

    async fn history(&self) -> anyhow::Result<()> {
        let entries = self.sessions.current().history().await?;
        if entries.is_empty() {
            self.printer.note("nothing has run yet");
            return Ok(());
        }
        self.lines_of(&table(&entries.iter().map(show::entry).collect::<Vec<_>>()))
    }

    async fn checkpoint(&self, path: &Path) -> anyhow::Result<()> {
        let taken = self.claim(path)?;
        let Some(file) = taken.as_ref().or(self.file.as_ref()) else {
            return Ok(());
        };
        self.sessions.current().checkpoint(file).await?;
        let bytes = file.path().metadata().map_or(0, |meta| meta.len());
        let name = path.display();
        self.printer.note(&format!("saved {} to {name}, {}", self.sessions.name(), size(bytes)));
        Ok(())
    }

    async fn restore(&mut self, path: &Path) -> anyhow::Result<()> {
        let session = self.place.restore(path).await?;
        let stem = path.file_stem().unwrap_or_default().to_string_lossy().replace(' ', "-");
        let name = self.sessions.free_name(None, &stem)?;
        let left = self.sessions.name().to_owned();
        let runs = count(session.execution().await?, "run");
        self.printer.note(&format!(
            "now in {}, after {runs}; %switch {} goes back",
            plain(&name),
            plain(&left)
        ));
        self.sessions.add(name, session);
        Ok(())
    }

    async fn list_files(&self) -> anyhow::Result<()> {
        let files = self.sessions.current().files().await?;
        if files.is_empty() {
            self.printer.note("the session has no files");
            return Ok(());
        }
        let rows = files.iter().map(|file| {
            let target = file.symlink.as_ref().map(|target| format!("link to {}", plain(target)));
            [plain(&file.path), size(file.size), target.unwrap_or_default()]
        });
        self.lines_of(&table(&rows.collect::<Vec<_>>()))
    }

    async fn save(&self, path: &str, to: Option<PathBuf>) -> anyhow::Result<()> {
        let session = self.sessions.current();
        let bytes = session.read(path).await.map_err(|_| {
            Usage::new(format!("the session has no file {}", plain(path))).hint("%files lists them")
        })?;
        let name = Path::new(path).file_name().unwrap_or_default();
        let to = match to {
            Some(to) if to.is_dir() => to.join(name),
            Some(to) => to,
            None => PathBuf::from(name),
        };
        match File::create_new(&to) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                let message = format!("{} already exists", to.display());
                return Err(Usage::new(message).hint("choose another name: %save PATH TO").into());
            }
            created => created.and_then(|mut file| file.write_all(&bytes)),
        }
        .with_context(|| format!("cannot write {}", to.display()))?;
        self.printer.note(&format!("saved {}, {}", to.display(), size(bytes.len() as u64)));
        Ok(())
    }

    fn limits(&self) -> anyhow::Result<()> {
        let bounds = self.sessions.current().bounds();
        self.lines_of(&table(&show::limits(bounds.as_ref(), &self.request.limits)))
    }

    fn help(&self) -> anyhow::Result<()> {
        let rows = COMMANDS
            .iter()
            .map(|(name, arguments, what)| [usage(name, arguments), (*what).to_owned()]);
        self.lines_of(&table(&rows.collect::<Vec<_>>()))?;
        self.printer.line("NAME? describes NAME, NAME?? also shows its source")?;
        Ok(self.printer.line("Ctrl-C stops running code; an empty line ends an indented block")?)
    }

    async fn inspect(&self, name: &str, detail: bool) -> anyhow::Result<()> {
        let session = self.sessions.current();
        let found = session.inspect(name, detail).await?;
        let found = found.ok_or_else(|| Usage::new(format!("{name} is not defined")))?;
        Ok(self.printer.line(&show::inspection(&found))?)
    }

    fn lines_of(&self, lines: &[String]) -> anyhow::Result<()> {
        for line in lines {
            self.printer.line(line)?;
        }
        Ok(())
    }
}
