//! Another guest in Python's place, for tests that are not about Python. It is no part of the
//! interface and in no release: the cargo feature `testing` adds it.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_files::Packed;
use belljar_passes::Tier;

use crate::artifact::bundle::{self, BundleError, Writer};
use crate::artifact::image::{Image, InterruptAddresses, Manifest, Reserved};
use crate::artifact::{Artifact, compile_foreign};
use crate::error::Error;
use crate::image::stamp;

/// Guest that speaks the runner's protocol: `docs/internals/architecture.md`.
#[derive(Clone, Copy, Debug)]
pub struct Guest<'a> {
    /// Its module. Like Python's, it has one mutable global, one memory, and no start function.
    pub wasm: &'a [u8],
    /// Addresses of the three words that a soft interrupt writes to: `tripped`, `is_tripped` and
    /// `eval_breaker`.
    pub interrupt: [u32; 3],
    /// Address and length of the memory for the answer to a run's first frame.
    pub answer: (u32, u32),
}

/// An empty archive in place of Python's library.
const EMPTY_ARCHIVE: &[u8] = b"PK\x05\x06\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";

/// Makes a bundle in the existing directory `to`. Its images, those that runs and sessions start
/// from by default, hold `guest`.
///
/// # Errors
///
/// When the module cannot be split, metered, proved to stop or compiled, or a file not written.
pub fn pack_guest(guest: &Guest<'_>, to: &Path) -> Result<(), Error> {
    let (code, split) = compile_foreign(guest.wasm)?;
    let [tripped, is_tripped, eval_breaker] = guest.interrupt;
    let mut image = Manifest {
        name: String::new(),
        base: None,
        description: "a guest for tests".into(),
        imports: Vec::new(),
        packages: Vec::new(),
        package_file: None,
        artifact: String::new(),
        recipe: String::new(),
        stack_pointer: split.stack_pointer,
        interrupt: Some(InterruptAddresses {
            tripped,
            is_tripped,
            eval_breaker,
        }),
        reserved: Some(Reserved {
            run_source: guest.answer.0,
            answer: guest.answer.0,
            answer_bytes: guest.answer.1,
        }),
        extensions: Vec::new(),
        replaced: Vec::new(),
    };
    let mut files = Writer::new(to);
    let folder = tempfile::tempdir_in(to).map_err(BundleError::io("create a directory in", to))?;
    for name in IMAGES {
        name.clone_into(&mut image.name);
        let path = folder.path().join(name);
        Image::create(&path, &image, &split.memory)?;
        files.copy(&path, &bundle::image_file(name))?;
    }
    drop(folder);
    files.write(bundle::CODE, code.as_slice())?;
    let library = Artifact::in_bundle(Path::new(""));
    let mut fonts = Vec::new();
    Packed::pack(&BTreeMap::new(), &mut fonts).map_err(BundleError::io("write", to))?;
    for (path, content) in
        [(library.library_zip(), EMPTY_ARCHIVE), (library.font_data(), fonts.as_slice())]
    {
        files.write(&path.to_string_lossy(), content)?;
    }
    files.finish(bundle::Manifest {
        format: bundle::FORMAT,
        belljar: env!("CARGO_PKG_VERSION").into(),
        stamp: stamp(),
        target: bundle::system(),
        processor: bundle::Processor::ThisMachine.to_string(),
        features: Vec::new(),
        tier: Tier::All,
        left_out: Vec::new(),
        linking: None,
        images: IMAGES.map(str::to_owned).to_vec(),
        files: Vec::new(),
    })?;
    Ok(())
}

/// What `auto` is for runs of code that imports nothing, and for sessions.
const IMAGES: [&str; 2] = ["core", "data"];
