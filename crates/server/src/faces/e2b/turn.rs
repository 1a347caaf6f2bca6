//! Turns in a sandbox: whoever has one may run code, and look at files and change them.
//!
//! Sessions have files of their own, so contexts take turns: one that is to run has first the files of the one
//! that ran last, which costs nothing where none has changed. In a store a turn is the claim on the session of
//! that context. Which one it is stands in the sandbox's document, and is read again with the claim in hand.

use std::sync::Arc;
use std::time::Duration;

use belljar::error::SessionError;
use belljar::session::SessionFiles;
use belljar::{Error, Outcome, Request};
use tokio::sync::OwnedMutexGuard;

use super::context::{Context, Latest, Note};
use super::fault::{Fault, gone};
use super::sandbox::Sandbox;
use crate::service::anywhere::{AtHand, Use};
use crate::service::error::ServiceError;
use crate::service::turn::Attended;

/// How long whoever waits for another server's turn does so before it asks again.
const PAUSE: Duration = Duration::from_millis(50);

/// A session in which something ran, and what came of it.
pub(super) type Ran = (AtHand, Result<Outcome, ServiceError>);

/// A turn.
pub(super) struct Turn {
    latest: OwnedMutexGuard<Latest>,
    /// The session of that context, unless something runs in it.
    at: Option<AtHand>,
    /// The session that had the files before, until it is written down that another has.
    before: Option<AtHand>,
}

impl Sandbox {
    /// Waits until nothing else runs or writes here.
    pub(super) async fn turn(&self, purpose: Use) -> Result<Turn, Fault> {
        self.turn_as(|_| purpose).await
    }

    /// A turn to run code in a context, however long others on any server have theirs.
    pub(super) async fn turn_to_run(&self, context: &Context) -> Result<Turn, Fault> {
        let purpose = |latest: &Context| {
            if latest.id == context.id {
                Use::Run
            } else {
                Use::Change
            }
        };
        self.turn_waiting(purpose).await
    }

    /// A turn, however long others on any server have theirs.
    pub(super) async fn turn_waiting(
        &self,
        purpose: impl Fn(&Context) -> Use,
    ) -> Result<Turn, Fault> {
        loop {
            match self.turn_as(&purpose).await {
                Err(fault) if fault.is_elsewhere => tokio::time::sleep(PAUSE).await,
                turn => return turn,
            }
        }
    }

    async fn turn_as(&self, purpose: impl Fn(&Context) -> Use) -> Result<Turn, Fault> {
        let mut latest = tokio::select! {
            biased;
            () = self.killed.cancelled() => return Err(gone()),
            latest = self.latest() => latest,
        };
        loop {
            let session = latest.0.session();
            let at = self.at_hand(&latest.0, purpose(&latest.0)).await;
            if self.is_shared() {
                let now = self.refreshed_latest().await?;
                let is_it = now.id == latest.0.id && now.session() == session;
                latest.0 = now;
                if !is_it {
                    if let Ok(Some(at)) = at {
                        at.leave().await?;
                    }
                    continue;
                }
            }
            return Ok(Turn {
                latest,
                at: Some(at?.ok_or_else(gone)?),
                before: None,
            });
        }
    }

    /// The session of a context, at hand; `None` where it is gone.
    pub(super) async fn at_hand(
        &self,
        context: &Context,
        purpose: Use,
    ) -> Result<Option<AtHand>, Fault> {
        match self.service().at_hand(&self.owner, &context.session(), purpose).await {
            Ok(at) => {
                if self.is_shared() {
                    context.set_note(Note::read(at.note()));
                }
                Ok(Some(at))
            }
            Err(
                ServiceError::NoSession { .. }
                | ServiceError::Engine(Error::Session(SessionError::NotFound { .. })),
            ) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Has a context have the sandbox's files, and be the one that has them from now on.
    pub(super) async fn hand_over(&self, turn: &mut Turn, to: &Arc<Context>) -> Result<(), Fault> {
        if turn.latest.0.id == to.id {
            return Ok(());
        }
        let at = self.at_hand(to, Use::Run).await?.ok_or_else(gone)?;
        at.session().all_files().replace_with(&turn.files()?).await?;
        let before = turn.at.replace(at);
        if self.is_shared() && turn.before.is_none() {
            turn.before = before;
        }
        turn.latest.0 = Arc::clone(to);
        Ok(())
    }

    /// Runs a request in the context that has the turn.
    pub(super) fn run(&self, turn: &mut Turn, request: Request) -> Result<Attended<Ran>, Fault> {
        let at = turn.at.take().ok_or_else(gone)?;
        Ok(self.service().run_holding(&self.owner, at, request))
    }

    /// Ends a turn in which something was run, and notes what is known of its context since.
    pub(super) async fn ran(
        &self,
        turn: Turn,
        mut at: AtHand,
        ran: &Result<Outcome, ServiceError>,
    ) -> Result<(), Fault> {
        if self.is_shared() {
            at.set_note(turn.latest.0.note().written());
        }
        if turn.before.is_none() {
            at.done_after(ran).await?;
            // Whoever looks now waits until this turn has ended.
            self.changed.send_replace(());
            return Ok(());
        }
        self.done(Turn {
            at: Some(at),
            ..turn
        })
        .await
    }

    /// Ends a turn in which something was changed: from now on it is there on every server.
    pub(super) async fn done(&self, turn: Turn) -> Result<(), Fault> {
        let Turn { latest, at, before } = turn;
        if let Some(at) = at {
            at.done().await?;
        }
        if let Some(before) = before {
            self.set_latest(&latest.0).await?;
            before.leave().await?;
        }
        self.changed.send_replace(());
        drop(latest);
        Ok(())
    }
}

impl Turn {
    /// The sandbox's files.
    pub(super) fn files(&self) -> Result<SessionFiles, Fault> {
        Ok(self.at()?.session().all_files())
    }

    pub(super) fn at(&self) -> Result<&AtHand, Fault> {
        self.at.as_ref().ok_or_else(gone)
    }

    /// The context that has the files.
    pub(super) fn context(&self) -> &Arc<Context> {
        &self.latest.0
    }

    /// Takes another session for the context that has the files; the one before is given back as it was.
    pub(super) async fn exchange(&mut self, at: AtHand) -> Result<(), Fault> {
        match self.at.replace(at) {
            Some(before) => Ok(before.leave().await?),
            None => Ok(()),
        }
    }

    /// Ends a turn in which nothing was changed.
    pub(super) async fn leave(self) -> Result<(), Fault> {
        for at in [self.at, self.before].into_iter().flatten() {
            at.leave().await?;
        }
        Ok(())
    }
}
