//! Files that a command has changed, given to a sandbox that may have changed meanwhile.

use belljar::session::SessionFiles;

use super::fault::Fault;
use super::sandbox::Sandbox;
use crate::service::anywhere::AtHand;
use crate::service::held::Held;

/// The files of a session, as they were at one moment: another session, which has them.
pub(super) struct Base(Held);

impl Base {
    pub(super) async fn of(sandbox: &Sandbox, at: &AtHand) -> Result<Self, Fault> {
        Ok(Self(sandbox.service().fork_of(&sandbox.owner, at, None).await?))
    }

    /// Whether a session has the same files still.
    pub(super) async fn is_as_in(&self, sandbox: &Sandbox, at: &AtHand) -> Result<bool, Fault> {
        let copy = Self::of(sandbox, at).await?;
        let changed = copy.files().replace_with(&self.files()).await;
        copy.remove(sandbox).await;
        Ok(!changed?)
    }

    fn files(&self) -> SessionFiles {
        self.0.session().all_files()
    }

    pub(super) async fn remove(self, sandbox: &Sandbox) {
        sandbox.remove_session(self.0.id()).await;
    }

    /// Gives `ours` what is other in `theirs` than here.
    pub(super) async fn give(
        &self,
        ours: &SessionFiles,
        theirs: &SessionFiles,
    ) -> Result<(), Fault> {
        Ok(ours.merge(&self.files(), theirs).await?)
    }
}
