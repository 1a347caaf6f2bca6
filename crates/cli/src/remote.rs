//! Code that runs on a server (`belljar serve`) in place of this machine.

mod copies;
mod follow;
mod link;
mod order;
mod session;
mod stream;

use std::path::Path;

use super::args::{Global, ServerArgs};
use super::exit::Usage;
use super::lockdown::{LockdownArgs, When};
pub(super) use super::server_error::RemoteError;
pub(super) use copies::{copy, forget};
pub(super) use follow::{Follower, Run, Told, follow, plain};
pub(super) use link::Link;
pub(super) use order::Order;
pub(super) use session::RemoteSession;

/// The variables that name a server, as its clients for Python and Node read them.
const URL: &str = "BELLJAR_URL";
const KEY: &str = "BELLJAR_KEY";

/// The name of a session on a server, given where a file is given on this machine.
pub(super) fn session_name(given: &Path) -> Result<&str, Usage> {
    given.to_str().filter(|name| !name.is_empty()).ok_or_else(|| {
        Usage::new(format!("{} is not the name of a session", given.display()))
            .hint("give 1 to 64 letters, digits, - and _")
    })
}

impl ServerArgs {
    /// The chosen server. `local` are the options that need code to run on this machine, and
    /// whether they were given.
    pub(super) fn link(
        &self,
        global: &Global,
        lockdown: &LockdownArgs,
        local: &[(&str, bool)],
    ) -> Result<Option<Link>, Usage> {
        let named = || std::env::var(URL).ok();
        let Some(url) = self.server.clone().or_else(named).filter(|url| !url.is_empty()) else {
            return Ok(None);
        };
        let locks = lockdown.lockdown == When::Require
            || lockdown.no_lockdown
            || !lockdown.allow_read.is_empty()
            || !lockdown.allow_write.is_empty();
        let options = [
            ("--cache", global.cache.is_some()),
            ("--wheel", global.wheel.is_some()),
            ("--bundle", global.bundle.is_some()),
            ("--bundle-hash", global.bundle_hash.is_some()),
            ("--lockdown, --no-lockdown and --allow-", locks),
        ];
        if let Some((name, _)) = options.iter().chain(local).find(|(_, given)| *given) {
            let source = if self.server.is_some() {
                "--server"
            } else {
                URL
            };
            let message =
                format!("{name} concerns this machine, but {source} runs the code on a server");
            return Err(Usage::new(message)
                .hint("leave it out, or run the code on this machine with --server="));
        }
        Link::to(&url, std::env::var(KEY).ok().as_deref()).map(Some)
    }
}
