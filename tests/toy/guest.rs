//! A guest without Python: `toy.wat`, as a bundle that any runtime, command or server runs from.
//!
//! Its code is one command a line. A command that fails ends the run with an `OSError`, which has
//! the error number of WASI.
//!
//! | Command | What it does |
//! |---|---|
//! | `print TEXT`, `error TEXT`, `flood N` | writes a line, text to standard error, `N` bytes |
//! | `stdin` | prints standard input |
//! | `set V N`, `add V N`, `get V` | variables `a` to `z`, which stay in memory |
//! | `value JSON` | sets the result |
//! | `write PATH TEXT`, `append PATH TEXT`, `fill PATH N` | writes a file: text, or `N` bytes |
//! | `read PATH`, `remove PATH`, `mkdir PATH`, `rename FROM TO` | |
//! | `open V PATH`, `put V TEXT`, `close V` | a file that stays open |
//! | `grow N` | takes `N` pages of memory and writes to each |
//! | `spin`, `hang`, `sleep MS` | spends time; `hang` ignores interrupts |
//! | `clock`, `random` | prints the time, or a random number |
//! | `call TOOL JSON`, `send FRAME` | sends a frame, and prints the answer or `refused` |
//! | `bulk T N`, `wild` | sends a frame of type `T` with `N` bytes, or one outside the memory |
//! | `try COMMAND` | prints the error number instead of ending |
//! | `repeat N COMMAND` | runs a command again and again |
//! | `raise TEXT`, `exit N` | ends the run with an exception, or a status |
//! | `leave`, `quit N`, `trap`, `recurse` | ends it without a word to the host |

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::UNIX_EPOCH;

use belljar::testing::{Guest, pack_guest};

/// Addresses that `toy.wat` has for the words of an interrupt, and for the first answer.
const INTERRUPT: [u32; 3] = [16, 20, 24];
const ANSWER: (u32, u32) = (0x20000, 0x10000);
/// Where constants begin and end.
const CONSTANTS: (usize, usize) = (0x400, 0x8000);

/// The bundle with the toy guest, made once by each build of a test binary.
pub fn bundle() -> &'static Path {
    static BUNDLE: OnceLock<PathBuf> = OnceLock::new();
    BUNDLE.get_or_init(|| {
        let program = std::env::current_exe().unwrap();
        let built = fs::metadata(&program).and_then(|found| found.modified()).unwrap();
        let built = built.duration_since(UNIX_EPOCH).unwrap().as_nanos();
        let name = program.file_stem().unwrap().to_str().unwrap();
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("toy").join(name);
        let path = folder.join(built.to_string());
        if !path.exists() {
            fs::create_dir_all(&folder).unwrap();
            remove_others(&folder, built);
            make(&folder, &path);
        }
        path
    })
}

/// Removes the bundles of earlier builds, but nothing that another process is making.
fn remove_others(folder: &Path, built: u128) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let other = entry.file_name().to_str().and_then(|name| name.parse::<u128>().ok());
        if other.is_some_and(|other| other != built) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Makes the bundle all at once: tests in other processes may do the same.
fn make(folder: &Path, path: &Path) {
    let building = tempfile::tempdir_in(folder).unwrap();
    let wasm = wat::parse_str(with_constants(include_str!("toy.wat"))).unwrap();
    let guest = Guest {
        wasm: &wasm,
        interrupt: INTERRUPT,
        answer: ANSWER,
    };
    pack_guest(&guest, building.path()).unwrap();
    match fs::rename(building.path(), path) {
        Ok(()) => drop(building.keep()),
        Err(error) => assert!(path.exists(), "{error}"),
    }
}

/// Replaces every `@"text"` by the address and the length of the text, which becomes data.
fn with_constants(source: &str) -> String {
    let (mut module, mut data) = (String::new(), String::new());
    let mut at = CONSTANTS.0;
    let mut rest = source;
    while let Some((before, literal)) = rest.split_once("@\"") {
        let (text, after) = literal.split_once('"').unwrap();
        let length = length(text);
        write!(module, "{before}(i32.const {at}) (i32.const {length})").unwrap();
        writeln!(data, "(data (i32.const {at}) \"{text}\")").unwrap();
        at += length;
        rest = after;
    }
    assert!(at <= CONSTANTS.1, "{at}");
    let body = rest.trim_end().strip_suffix(')').unwrap();
    format!("{module}{body}{data})")
}

/// Bytes of a text of WAT: an escape is `\n` or two hexadecimal digits.
fn length(text: &str) -> usize {
    let escapes = text.matches("\\n").count();
    let hexadecimal = text.matches('\\').count() - escapes;
    text.len() - escapes - 2 * hexadecimal
}
