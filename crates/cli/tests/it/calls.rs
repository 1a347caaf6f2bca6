//! Runs of the command, with the `belljar` of the module around this.

use super::*;

pub(super) fn ran(args: &[&str]) -> Ran {
    belljar().args(args).output().unwrap().into()
}

pub(super) fn ran_in(folder: &Path, args: &[&str]) -> Ran {
    belljar().args(args).current_dir(folder).output().unwrap().into()
}

pub(super) fn ran_with(input: impl AsRef<[u8]>, args: &[&str]) -> Ran {
    sent_to(belljar(), input, args)
}
