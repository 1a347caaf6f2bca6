//! Saves figures to a directory of the user.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use belljar::Outcome;

use super::seat::Seat;

/// Bytes of one run's figures: a server may be hostile.
const MAX_BYTES: usize = 256 << 20;

/// A directory for figures.
#[derive(Debug)]
pub(super) struct Figures {
    dir: PathBuf,
}

impl Figures {
    pub(super) fn new(dir: PathBuf) -> Self {
        Self { dir }
    }

    /// Saves the figures of a run, and returns their paths.
    pub(super) async fn save(
        &self,
        session: &Seat,
        outcome: &Outcome,
    ) -> anyhow::Result<Vec<PathBuf>> {
        let (mut saved, mut left) = (Vec::with_capacity(outcome.plots.len()), MAX_BYTES);
        for plot in &outcome.plots {
            let bytes = session.read(&plot.path).await?;
            left =
                left.checked_sub(bytes.len()).context("the figures of this run are too large")?;
            let name = Path::new(&plot.path).file_name().unwrap_or_default();
            let written = std::fs::create_dir_all(&self.dir)
                .and_then(|()| create(&self.dir, Path::new(name), &bytes));
            let dir = self.dir.display();
            saved.push(written.with_context(|| format!("cannot save a figure in {dir}"))?);
        }
        Ok(saved)
    }
}

/// Creates a file, with a number after its name if the name is taken.
fn create(dir: &Path, name: &Path, bytes: &[u8]) -> io::Result<PathBuf> {
    let stem = name.file_stem().unwrap_or_default().to_string_lossy();
    let extension = name.extension().unwrap_or_default().to_string_lossy();
    let mut path = dir.join(name);
    for number in 2u32.. {
        match File::create_new(&path) {
            Ok(mut file) => {
                file.write_all(bytes)?;
                break;
            }
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                path = dir.join(format!("{stem}-{number}.{extension}"));
            }
            Err(e) => return Err(e),
        }
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_file_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let names = (0..3).map(|n| create(dir.path(), Path::new("plot_1.png"), &[n]).unwrap());
        let names: Vec<PathBuf> = names.collect();
        let expected = ["plot_1.png", "plot_1-2.png", "plot_1-3.png"];
        assert_eq!(names, expected.map(|name| dir.path().join(name)));
        assert_eq!(std::fs::read(&names[0]).unwrap(), [0]);
    }
}
