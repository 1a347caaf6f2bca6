//! A session at hand for a use: one of this process, or one of the store that is claimed.

use std::ops::Deref;
use std::time::{Duration, SystemTime};

use belljar::cluster::{Claim, Reading};
use belljar::error::SessionError;
use belljar::tool::ToolAnswer;
use belljar::{Interrupt, Outcome, Request};
use serde_json::Value;

use super::Anywhere;
use super::about::{About, Making, NewAbout, millis};
use super::bytes::bytes_of;
use crate::service::Service;
use crate::service::error::ServiceError;
use crate::service::held::{Held, no_session};
use crate::service::owner::{Owner, Work};
use crate::service::turn::{Attended, Turn};

/// What a session is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// It is as it was afterwards.
    Look,
    /// What takes no more room.
    Change,
    /// What may take more room, for which there has to be some.
    Write,
    /// The same by code.
    Run,
}

/// A session that somebody uses: one of this process, or one of the store that no other node changes
/// meanwhile.
pub(crate) struct AtHand {
    service: Service,
    owner: Owner,
    held: Held,
    hold: Hold,
    about: Option<About>,
}

enum Hold {
    Here,
    Looking { _reading: Reading },
    Having(Claim),
}

impl Deref for AtHand {
    type Target = Held;

    fn deref(&self) -> &Held {
        &self.held
    }
}

impl AtHand {
    /// What was changed is there from now on, for everybody. Without this call it is a little later.
    pub(crate) async fn done(mut self) -> Result<(), ServiceError> {
        self.count().await;
        if let Hold::Having(mut claim) = self.hold {
            if let Some(mut about) = self.about {
                about.labels = self.held.session().info().labels;
                claim.set_about(about.text());
            }
            claim.release().await?;
        }
        Ok(())
    }

    /// Gives it back after a run, or after one that did not begin. What it did is there for everybody a little
    /// later; only where this node may have lost the session does the caller wait, and learn it.
    pub(crate) async fn done_after(
        mut self,
        ran: &Result<Outcome, ServiceError>,
    ) -> Result<(), ServiceError> {
        let has_begun = !matches!(
            ran,
            Err(ServiceError::Engine(belljar::Error::Refused(_))
                | ServiceError::Limit { .. }
                | ServiceError::Memory
                | ServiceError::Stopping)
        );
        if has_begun {
            self.count().await;
        }
        match self.hold {
            Hold::Having(claim) if has_begun => claim.release_behind().await?,
            Hold::Having(claim) => claim.release_unchanged().await?,
            Hold::Here | Hold::Looking { .. } => {}
        }
        Ok(())
    }

    /// Counts its files, if the owner's are limited. For one of the store that has to be done before it is
    /// given back, as its record says it.
    async fn count(&mut self) {
        let (Some(about), Hold::Having(claim)) = (&mut self.about, &mut self.hold) else {
            return self.service.look(&self.owner, &self.held);
        };
        if self.owner.limits().stored_bytes.is_none() {
            return;
        }
        let bytes = bytes_of(&self.held.session().workspace()).await;
        about.bytes = Some(bytes);
        claim.set_about(about.text());
        if let Some(anywhere) = self.service.anywhere() {
            anywhere.note_bytes(self.owner.name(), self.held.id(), bytes);
        }
    }

    /// What another is to be like that is made from it.
    pub(in crate::service) fn another(&self, name: Option<String>) -> Making {
        let stored = self.about.as_ref().map(|about| NewAbout {
            lease: about.lease_left(),
            note: about.note.clone(),
        });
        Making {
            name,
            lease_end: self.held.lease_end(),
            stored,
        }
    }

    /// Gives it back as it was, but for what is noted.
    pub(crate) async fn leave(self) -> Result<(), ServiceError> {
        match self.hold {
            Hold::Having(claim) => Ok(claim.release_unchanged().await?),
            Hold::Here | Hold::Looking { .. } => Ok(()),
        }
    }

    /// What an interface has noted with the state of a session of the store.
    pub(crate) fn note(&self) -> Option<&Value> {
        self.about.as_ref()?.note.as_ref()
    }

    /// Notes something, which is written with the state.
    pub(crate) fn set_note(&mut self, note: Value) {
        if let (Some(about), Hold::Having(claim)) = (&mut self.about, &mut self.hold) {
            about.note = Some(note);
            claim.set_about(about.text());
        }
    }

    /// Has its lease end so long from now; whether it has one.
    pub(crate) fn extend_lease(&mut self, time: Duration) -> Result<bool, ServiceError> {
        match &mut self.about {
            Some(About {
                lease: Some((end, _)),
                ..
            }) => {
                *end = millis(SystemTime::now()).saturating_add(time.as_millis() as u64);
                Ok(true)
            }
            Some(_) => Ok(false),
            None => Ok(self.held.session().extend_lease(time)?),
        }
    }

    /// The seconds until its lease ends.
    pub(crate) fn lease_seconds(&self) -> Option<f64> {
        match &self.about {
            Some(about) => about.lease_seconds(),
            None => self.held.session().info().lease_seconds,
        }
    }
}

impl Service {
    /// Somebody's session of that id or name, wherever it is.
    ///
    /// # Errors
    ///
    /// [`ServiceError::NoSession`] when there is none, or it is somebody else's; when the store fails, or
    /// another server keeps it for too long.
    pub(crate) async fn at_hand(
        &self,
        owner: &Owner,
        id: &str,
        purpose: Use,
    ) -> Result<AtHand, ServiceError> {
        if matches!(purpose, Use::Write | Use::Run) {
            Box::pin(self.has_room(owner)).await?;
        }
        let found = self.find(owner, id);
        let (session, hold, about) = match (self.anywhere(), found) {
            (Some(anywhere), Err(ServiceError::NoSession { .. })) => {
                Box::pin(anywhere.at_hand(owner, id, purpose)).await?
            }
            (_, found) => (found?, Hold::Here, None),
        };
        Ok(AtHand {
            service: self.clone(),
            owner: owner.clone(),
            held: session,
            hold,
            about,
        })
    }

    /// Runs a request in a session that is at hand, after those that were asked for before it, and gives it
    /// back. A future that is dropped interrupts its run, and the session keeps what it did until then.
    ///
    /// # Errors
    ///
    /// When the owner may not run anything now, as for [`belljar::Session::run`], and when the session was
    /// lost to another server.
    pub(crate) fn run_at(
        &self,
        owner: &Owner,
        at: AtHand,
        request: Request,
    ) -> Attended<Result<Outcome, ServiceError>> {
        let interrupt = request.interrupt.clone().unwrap_or_default();
        let running = self.run_holding(owner, at, request.interrupt(&interrupt));
        Attended::new(Some(interrupt), async move {
            let (at, ran) = running.await;
            at.done_after(&ran).await?;
            ran
        })
    }

    /// Runs a request in a session that is at hand, which it is still afterwards.
    pub(crate) fn run_holding(
        &self,
        owner: &Owner,
        mut at: AtHand,
        mut request: Request,
    ) -> Attended<(AtHand, Result<Outcome, ServiceError>)> {
        let turn = Turn::of_run(self, owner, &mut request);
        let interrupt = request.interrupt.clone();
        Attended::new(interrupt, async move {
            let turn = match turn {
                Ok(turn) => turn,
                Err(error) => return (at, Err(error)),
            };
            let running = async {
                match &mut at.hold {
                    Hold::Having(claim) => claim.run(request).await,
                    Hold::Here | Hold::Looking { .. } => at.held.guest().run(request).await,
                }
            };
            let ran = turn.scope(Box::pin(running)).await.map_err(ServiceError::from);
            turn.note(ran.as_ref());
            (at, ran)
        })
    }

    /// Goes on with a run of a session that waits for answers of its deferred tools. Dropped, it leaves
    /// the run waiting as before.
    ///
    /// # Errors
    ///
    /// When the owner may not run anything now, or as for [`belljar::Session::answer`].
    pub(crate) async fn answer_at(
        &self,
        owner: &Owner,
        mut at: AtHand,
        answers: Vec<ToolAnswer>,
    ) -> Result<Outcome, ServiceError> {
        let turn = Turn::begin(&self.shared, owner, Work::Run, &Interrupt::new())?;
        let answering = async {
            match &mut at.hold {
                Hold::Having(claim) => claim.answer(answers).await,
                Hold::Here | Hold::Looking { .. } => at.held.guest().answer(answers).await,
            }
        };
        let answered = turn.scope(Box::pin(answering)).await.map_err(ServiceError::from);
        turn.note(answered.as_ref());
        at.done_after(&answered).await?;
        answered
    }
}

impl Anywhere {
    async fn at_hand(
        &self,
        owner: &Owner,
        id: &str,
        purpose: Use,
    ) -> Result<(Held, Hold, Option<About>), ServiceError> {
        let asked = id;
        let id = self.id_of(owner, asked).await?;
        let gone = |error: belljar::Error| match error {
            belljar::Error::Session(SessionError::NotFound { .. }) => no_session(asked),
            error => error.into(),
        };
        let (hold, session, about) = if purpose == Use::Look {
            let reading = self.sessions.read(&id).await.map_err(gone)?;
            let (session, about) = (reading.session().clone(), About::of(reading.info()));
            (Hold::Looking { _reading: reading }, session, about)
        } else {
            let claim = match purpose {
                Use::Run => self.sessions.claim_run(&id).await,
                _ => self.sessions.claim(&id).await,
            };
            let claim = claim.map_err(gone)?;
            let about = serde_json::from_value(Value::Object(claim.about())).ok();
            let session = claim.session().clone();
            (Hold::Having(claim), session, about)
        };
        let Some(about) = about.filter(|about| about.owner == owner.name()) else {
            return Err(no_session(asked));
        };
        if session.info().labels != about.labels {
            session.set_labels(about.labels.clone())?;
        }
        Ok((about.held(session), hold, Some(about)))
    }
}
