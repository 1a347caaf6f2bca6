//! The sessions of a prompt by name.

use super::seat::Seat;
use crate::exit::Usage;

/// Named sessions, one of which is current.
pub(super) struct Named {
    all: Vec<(String, Seat)>,
    current: usize,
}

impl Named {
    pub(super) fn new(first: Seat) -> Self {
        Self {
            all: vec![("main".to_owned(), first)],
            current: 0,
        }
    }

    pub(super) fn current(&self) -> &Seat {
        &self.all[self.current].1
    }

    pub(super) fn name(&self) -> &str {
        &self.all[self.current].0
    }

    pub(super) fn is_only(&self) -> bool {
        self.all.len() == 1
    }

    /// All sessions in order of creation, and whether each is the current one.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Seat, bool)> {
        let marked = self.all.iter().enumerate();
        marked.map(|(at, (name, session))| (name.as_str(), session, at == self.current))
    }

    /// A free name: the requested one, or one derived from `from`.
    pub(super) fn free_name(&self, asked: Option<String>, from: &str) -> Result<String, Usage> {
        let taken = |name: &str| self.all.iter().any(|(known, _)| known == name);
        match asked {
            Some(name) if taken(&name) => {
                Err(Usage::new(format!("there is already a session {name}"))
                    .hint(format!("switch to it with %switch {name}")))
            }
            Some(name) => Ok(name),
            None if !taken(from) && from != "fork" => Ok(from.to_owned()),
            None => {
                let mut names = (1u32..).map(|number| format!("{from}{number}"));
                names.find(|name| !taken(name)).ok_or_else(|| Usage::new("no name is free"))
            }
        }
    }

    /// Adds a session and makes it current.
    pub(super) fn add(&mut self, name: String, session: Seat) {
        self.all.push((name, session));
        self.current = self.all.len() - 1;
    }

    pub(super) fn switch(&mut self, name: &str) -> Result<(), Usage> {
        let found = self.all.iter().position(|(known, _)| known == name);
        self.current = found.ok_or_else(|| {
            let known: Vec<&str> = self.all.iter().map(|(name, _)| name.as_str()).collect();
            let there = if self.is_only() {
                "there is only"
            } else {
                "there are"
            };
            Usage::new(format!("there is no session {name}"))
                .hint(format!("{there} {}", known.join(", ")))
        })?;
        Ok(())
    }

    /// Ends all sessions.
    pub(super) async fn end(&self) {
        for (_, session) in &self.all {
            session.end().await;
        }
    }
}
