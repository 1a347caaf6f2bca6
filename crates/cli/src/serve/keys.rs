//! The keys that a server accepts.

use std::io::Write;
use std::path::Path;

use anyhow::Context;
use belljar_server::{Key, KeyLimits, Keys, keyfile};

use super::{ServeArgs, with_cause};
use crate::exit::Usage;

/// Holds the key of a server that has neither a file of keys nor a socket.
const VARIABLE: &str = "BELLJAR_KEY";
/// Shorter keys can be guessed.
const MIN_LENGTH: usize = 16;
const ACCOUNT: &str = "local";

/// Returns the accepted keys, and the text of a key that was generated for this process alone.
pub(super) fn keys(args: &ServeArgs) -> anyhow::Result<(Keys, Option<String>)> {
    if let Some(file) = &args.keys {
        let keys = keyfile::read(file).map_err(|error| Usage::new(with_cause(&error)))?;
        return Ok((Keys::of(keys), None));
    }
    if let Some(file) = &args.key_file {
        let text = text_in(file, args.check)
            .with_context(|| format!("cannot use the key in {}", file.display()))?;
        return Ok((one(&text, &file.display().to_string())?, None));
    }
    let is_public = args.unix.is_none() && !args.listen.ip().is_loopback();
    let variable = std::env::var(VARIABLE).ok().filter(|_| args.unix.is_none() && !args.no_auth);
    if let Some(text) = variable {
        return Ok((one(text.trim(), VARIABLE)?, None));
    }
    if is_public {
        let message =
            format!("{} is reachable from other machines, which needs a key", args.listen);
        let hint = "create one with belljar key create NAME --keys FILE, and give --keys FILE; or \
                    listen on 127.0.0.1";
        return Err(Usage::new(message).hint(hint).into());
    }
    if args.no_auth || args.unix.is_some() {
        return Ok((Keys::none(), None));
    }
    let (key, text) = generate()?;
    Ok((Keys::of(vec![key]), Some(text)))
}

fn generate() -> anyhow::Result<(Key, String)> {
    Key::generate(ACCOUNT, KeyLimits::default()).context("cannot create a key")
}

fn one(text: &str, place: &str) -> Result<Keys, Usage> {
    if text.len() < MIN_LENGTH || !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Usage::new(format!(
            "the key in {place} must have at least {MIN_LENGTH} characters: letters, digits and \
             punctuation of ASCII"
        ))
        .hint("remove it, and let --key-file FILE create one"));
    }
    Ok(Keys::of(vec![Key::of_text(ACCOUNT, KeyLimits::default(), text)]))
}

/// Reads the key in a file. A missing file is created, readable by its owner only, unless the
/// server is only checked.
fn text_in(file: &Path, is_check: bool) -> anyhow::Result<String> {
    match std::fs::read_to_string(file) {
        Ok(text) => return Ok(text.trim().to_owned()),
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        Err(_) => {}
    }
    let (_, text) = generate()?;
    if is_check {
        return Ok(text);
    }
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    // Temporary files have mode 0600. Another process may have created the key meanwhile.
    let mut new = tempfile::NamedTempFile::new_in(parent.unwrap_or(Path::new(".")))?;
    writeln!(new, "{text}")?;
    new.as_file().sync_all()?;
    match new.persist_noclobber(file) {
        Ok(_) => Ok(text),
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {
            Ok(std::fs::read_to_string(file)?.trim().to_owned())
        }
        Err(error) => Err(error.error.into()),
    }
}
