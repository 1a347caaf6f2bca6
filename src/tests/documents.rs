//! Checks that the documents state the source's numbers and frames. Whole phrases are compared, so
//! a changed number names the sentence to change.

use std::fs;
use std::path::{Path, PathBuf};

use crate::api::policy::RunLimits;
use crate::api::request::Capture;
use crate::api::tool::ToolLimits;
use crate::limits::*;
use crate::session::{HistoryLimits, RegistryLimits};

#[test]
fn what_a_request_can_set() {
    let (usual, most) = (RunLimits::default(), RunLimits::CEILINGS);
    let (timeout, longest) = (usual.timeout.as_secs(), count(most.timeout.as_secs()));
    let (memory, largest) = (bytes(usual.memory), bytes(most.memory));
    let (output, workspace) = (bytes(usual.output), bytes(usual.workspace));
    let files = count(usual.files);
    limits(&[
        format!("`timeout` (s) | {timeout} s | 1 ms | {longest} s |"),
        format!("`memory_mb` (MiB) | {memory} | 1 MiB | {largest} |"),
        format!("`output_bytes` | {output} | 0 | {} |", bytes(most.output)),
        format!("`workspace_mb` (MiB) | {workspace} | 0 | {} |", bytes(most.workspace)),
        format!("`max_files` | {files} | 0 | {} |", count(most.files)),
    ]);
    says("README.md", &format!("| memory above the image | {memory} |"));
    says("README.md", &format!("| each of stdout and stderr | {output} |"));
    says("README.md", &format!("| files | {workspace} in {files} files |"));
}

#[test]
fn how_a_run_is_stopped() {
    let grace = format!("{} ms", GRACE.as_millis());
    let fuel = format!("{} billion units", GRACE_FUEL / 1_000_000_000);
    limits(&[
        format!("{grace} later the sandbox is dropped"),
        format!("* **The grace** of {grace} comes on top"),
        format!("softly, with {fuel}"),
        format!(
            "A program that writes {FLOOD_FACTOR} times its limit, and at least {}, is stopped",
            bytes(LEAST_FLOOD)
        ),
    ]);
    says("docs/internals/architecture.md", &format!("After a grace of {grace} (for fuel: {fuel})"));
    says("docs/reference/security.md", &format!("{grace} later it drops the instance"));
    says("docs/reference/limitations.md", &format!("{grace} after its deadline"));
    let (start, wait) = (MAX_START.as_millis(), MAX_START_WAIT.as_millis());
    says(
        "docs/internals/architecture.md",
        &format!("or has run for {start} ms, and after {wait} ms at the latest"),
    );
}

#[test]
fn a_bundle() {
    let manifest = format!("at most {}", bytes(MAX_BUNDLE_MANIFEST));
    says("docs/reference/bundles.md", &manifest);
}

#[test]
fn what_a_guest_does() {
    limits(&[
        format!("| open descriptors of a guest, beyond the given ones | {MAX_OPEN} |"),
        format!("nameless file of at most {} in the", bytes(MAX_SPOOLED)),
        format!("| {MAX_PATH_NAMES} names, {} bytes |", count(MAX_PATH_BYTES)),
        format!("| subscriptions of one `poll` | {} |", count(MAX_SUBSCRIPTIONS)),
        format!("| one read or write of a file | {} |", bytes(MAX_MOVED)),
        format!("| one read of a file of a mount | {} |", bytes(MAX_COPIED)),
        format!("| one read of a device | {} |", bytes(MAX_DEVICE_READ)),
        format!("| wasm stack | {} |", bytes(crate::artifact::PINS.abi.stack_bytes)),
        format!("| heap of wasm exceptions | {} |", bytes(MAX_EXCEPTIONS)),
    ]);
    says(
        "docs/reference/security.md",
        &format!("the heap that holds wasm exceptions may reach {}", bytes(MAX_EXCEPTIONS)),
    );
}

#[test]
fn what_is_asked_and_what_comes_back() {
    let usual = Capture::default();
    let (frame, frames) = (bytes(MAX_FRAME), count(MAX_FRAMES));
    let (inline, together) = (bytes(MAX_INLINE), bytes(MAX_INLINE_TOGETHER));
    let listed = format!("{}, and {} of them", count(MAX_EVENTS as u64), bytes(MAX_EVENT_BYTES));
    let (events, room) = (count(MAX_WAITING_EVENTS as u64), bytes(MAX_WAITING_EVENT_BYTES));
    let waiting = format!("{events}, and {room} of them");
    let patience = MAX_EVENT_WAIT.as_secs();
    limits(&[
        format!("| code | {} |", bytes(MAX_CODE)),
        format!("(`capture.figure_dpi`) | {} to {} |", FIGURE_DPI.start(), FIGURE_DPI.end()),
        format!("(`capture.figure_count`) | {} |", usual.figure_count),
        format!("(`capture.dataframe_chars`) | {} characters |", count(usual.dataframe_chars)),
        format!(
            "(`capture.result_bytes`) | {}, depth {MAX_VALUE_DEPTH}, {} items of a container |",
            bytes(usual.result_bytes),
            count(MAX_VALUE_ITEMS)
        ),
        format!("| one frame to the host | {frame} |"),
        format!("decompressed in one call | {} |", bytes(MAX_CODEC_BYTES)),
        format!(
            "| a checked document | {}, {} parts, {} relations, names of {}, {} of XML in a part, {} \
             attributes and {} levels of elements, {} objects of a PDF; all of a run, unpacked, {} |",
            bytes(MAX_CHECKED_DOCUMENT),
            count(MAX_DOCUMENT_PARTS as u64),
            count(MAX_DOCUMENT_RELATIONS as u64),
            bytes(MAX_DOCUMENT_NAME as u64),
            bytes(MAX_DOCUMENT_XML),
            count(MAX_DOCUMENT_ATTRIBUTES as u64),
            count(MAX_DOCUMENT_LEVELS as u64),
            count(MAX_DOCUMENT_OBJECTS as u64),
            bytes(MAX_CHECKED_TOGETHER),
        ),
        format!(
            "| documents with a `problem` | {MAX_DOCUMENT_PROBLEMS} of a run, in \
             {MAX_DOCUMENT_PROBLEM} characters each |"
        ),
        format!("checking documents: at most {MAX_CHECKED_AT_ONCE} at once"),
        format!("at most {} s for the documents of other runs", MAX_CHECK_WAIT.as_secs()),
        format!("| a question about a session | {} s;", QUESTION_TIME.as_secs()),
        format!(
            "(`capture.typed_bytes`, at most {}) | {} of arrays and `bytes`, {} of anything else, {} \
             values, depth {MAX_TYPED_DEPTH} |",
            bytes(MAX_TYPED_BYTES),
            bytes(usual.typed_bytes),
            bytes(MAX_TYPED_HEAD as u64),
            count(MAX_TYPED_ITEMS as u64)
        ),
        format!("| frames in one run, beside those of tools and compression | {frames} |"),
        format!("| plots named in one run | {} |", count(MAX_PLOTS)),
        format!("| {MAX_DATAFRAMES}, and {} of text together |", bytes(MAX_DATAFRAME_BYTES)),
        format!("| what an interpreter printed when it gave up | {} |", bytes(MAX_FATAL_REPORT)),
        format!("| notes of the harvest | {MAX_WARNINGS} |"),
        format!("in `error`, {} |", count(MAX_ERROR)),
        format!("| one frame that displays something | {} |", display_bounds()),
        format!("| events in the outcome | {listed} |"),
        format!("{waiting} | the guest waits, for at most {patience} s"),
        format!("| a figure given inline | {inline}, all of a run {together} |"),
    ]);
    for sentence in [
        format!("more than {MAX_TYPED_DEPTH} containers deep"),
        format!(
            "more than {} values, or more than {} of",
            count(MAX_TYPED_ITEMS as u64),
            bytes(MAX_TYPED_HEAD as u64)
        ),
        format!(
            "no more than {} values and {MAX_TYPED_LEVELS} levels",
            count(MAX_TYPED_NODES as u64)
        ),
        format!("and {} buffers", count(MAX_TYPED_BUFFERS as u64)),
    ] {
        says("docs/reference/values.md", &sentence);
    }
    says("docs/reference/security.md", &format!("at most {frame} each and {frames} in a run"));
    says(
        "docs/reference/security.md",
        &format!("at most {} of frames about DataFrames", bytes(MAX_DATAFRAME_BYTES)),
    );
    says("docs/reference/events.md", &format!("| events in the outcome | {listed} |"));
    says(
        "docs/reference/events.md",
        &format!("| {waiting} | the guest waits, for at most {patience} s |"),
    );
    says(
        "docs/reference/events.md",
        &format!("When {events} events wait to be read, or {room} of them"),
    );
    says(
        "docs/reference/events.md",
        &format!("| one frame that displays something | {} |", display_bounds()),
    );
    says("src/api/watch/channel.rs", &format!("While {events} events or {room} are unread"));
    says(
        "docs/reference/outcome.md",
        &format!("carries its bytes, up to {inline} (and {together} of all"),
    );
    says(
        "docs/reference/outcome.md",
        &format!("at most {} characters on one line", count(MAX_ERROR)),
    );
}

fn display_bounds() -> String {
    let (values, forms) = (count(MAX_DISPLAY_VALUES as u64), MAX_DISPLAY_FORMS);
    format!("{}, {values} values, {forms} forms", bytes(MAX_DISPLAY_BYTES))
}

#[test]
fn what_tools_may_do() {
    let usual = ToolLimits::default();
    let together = bytes(MAX_RECORDED_TOGETHER);
    for phrase in [
        format!("in a run | {} | {} |", count(usual.calls), count(MAX_TOOL_CALLS)),
        format!("| {} | {} | `too_large`", bytes(usual.argument_bytes), bytes(MAX_TOOL_ARGUMENTS)),
        format!("| {} | {} | `too_large`", bytes(usual.answer_bytes), bytes(MAX_TOOL_ANSWER)),
        format!("| {} | {} | `budget", bytes(usual.total_bytes), bytes(MAX_TOOL_BYTES)),
        format!("together | {}, {} values |", bytes(MAX_LOGGED_BYTES), count(MAX_LOGGED_VALUES)),
        format!("of one call | {MAX_LOGGED_LEVELS} levels |"),
        format!("files | {}, {} values |", bytes(MAX_WAITING_BYTES), count(MAX_WAITING_VALUES)),
        format!("for one tool | {} s |", usual.timeout.as_secs()),
        format!("| calls open at once | {MAX_OPEN_CALLS} |"),
        format!("Arguments over {} KiB", MAX_RECORDED_ARGUMENTS >> 10),
        format!("past {together} of all calls"),
        format!("| tools of one run | {MAX_TOOLS} |"),
        format!("| a tool's name | {MAX_TOOL_NAME} bytes |"),
        format!("| its description | {} KiB |", MAX_TOOL_DESCRIPTION >> 10),
    ] {
        says("docs/guide/tools.md", &phrase);
    }
}

#[test]
fn what_is_kept() {
    let (history, sessions) = (HistoryLimits::default(), RegistryLimits::default());
    let past = bytes(history.bytes);
    let manifest = bytes(MAX_CHECKPOINT_MANIFEST);
    limits(&[
        format!("| `history` | {} runs, and {past} that only", history.runs),
        format!("| sessions | {} |", count(sessions.max as u64)),
        format!("| sessions in memory | {} |", sessions.max_awake),
        format!("| labels of a session | {MAX_LABELS}, of {} together |", bytes(MAX_LABEL_BYTES)),
        format!("| a key in a store | {MAX_STORE_KEY} bytes, its parts {MAX_STORE_KEY_PART} |"),
        format!("| time idle in memory | {} min |", sessions.suspend_after.as_secs() / 60),
        format!("| bytes of a restored checkpoint, unpacked | {} |", bytes(sessions.restored)),
        format!("the records of its history ({} of code and errors)", bytes(MAX_HISTORY_RECORDS)),
        format!("its settings ({} of", bytes(MAX_SESSION_SETTINGS)),
        format!("a checkpoint's manifest ({manifest}),"),
        format!(
            "its documents ({}), its states and runs in the history ({}) and its files ({})",
            bytes(MAX_CHECKPOINT_DOCUMENTS),
            count(MAX_HISTORY),
            count(MAX_CHECKPOINT_FILES)
        ),
    ]);
    says("docs/reference/sessions.md", &format!("| `history` | {} runs, {past} |", history.runs));
    says(
        "docs/reference/sessions.md",
        &format!("| `max` | {} | number", count(sessions.max as u64)),
    );
    says("docs/internals/checkpoints.md", &format!("length of the manifest, at most {manifest} |"));
    says(
        "docs/internals/checkpoints.md",
        &format!("names, at most {}, and", count(MAX_CONDEMNED as u64)),
    );
    says(
        "docs/internals/images.md",
        &format!("length of the manifest, at most {} |", bytes(MAX_IMAGE_MANIFEST)),
    );
    says(
        "docs/reference/images.md",
        &format!(
            "A wheel may have {}, also unpacked, and {} files",
            bytes(MAX_WHEEL),
            count(MAX_WHEEL_FILES as u64)
        ),
    );
    says(
        "docs/reference/images.md",
        &format!("a module of more than {}", bytes(MAX_NATIVE_MODULE as u64)),
    );
}

/// A limit that no document mentions would surprise users.
#[test]
fn every_bound_is_compared() {
    let tests = include_str!("documents.rs");
    let limits = [include_str!("../limits.rs"), include_str!("../../crates/value/src/limits.rs")];
    for line in limits.iter().flat_map(|text| text.lines()) {
        let constant = line.strip_prefix("pub(crate) const ").or(line.strip_prefix("pub const "));
        let Some(constant) = constant else {
            continue;
        };
        let name = constant.split(':').next().unwrap_or_default();
        let is_other = |rest: &str| rest.starts_with(|c: char| c == '_' || c.is_alphanumeric());
        let is_compared = tests.split(name).skip(1).any(|rest| !is_other(rest));
        assert!(is_compared, "{name} is compared with no document");
    }
}

#[test]
fn numbers_of_the_runner() {
    let columns = number("python-wasm/runner/values/frames.py", "_COLUMNS");
    says("docs/reference/limits.md", &format!("| columns of a table | {columns} |"));
    let message = number("python-wasm/runner/source/tracebacks.py", "MESSAGE_LIMIT");
    says(
        "docs/reference/limits.md",
        &format!("| an exception's message | {} characters", count(message)),
    );
    let traceback = number("python-wasm/runner/source/tracebacks.py", "TRACEBACK_LIMIT");
    let row = format!("| a traceback in `error_detail` | {} characters |", count(traceback));
    says("docs/reference/limits.md", &row);
    let (displays, form, text) = (
        count(number("python-wasm/runner/display/displays.py", "_DISPLAYS")),
        bytes(number("python-wasm/runner/display/bundles.py", "FORM_BYTES")),
        count(number("python-wasm/runner/display/bundles.py", "TEXT_CHARACTERS")),
    );
    let history = count(number("python-wasm/runner/dialect/shell.py", "_HISTORY"));
    says("docs/reference/events.md", &format!("its code; {history} of them are kept"));
    says("docs/reference/events.md", &format!("| displays in one run | {displays} |"));
    says(
        "docs/reference/events.md",
        &format!("| one form of a value | {form}; text {text} characters |"),
    );
    let repr = number("python-wasm/runner/values/values.py", "_REPR_LIMIT");
    says("docs/reference/values.md", &format!("its `repr`, at most {} characters", count(repr)));
}

#[test]
fn numbers_of_their_own_modules() {
    let slice = number("src/sandbox/drive.rs", "SLICE") / 1_000_000;
    says("docs/reference/limits.md", &format!("burns up to {slice} million units"));
    says("docs/internals/metering.md", &format!("gives way every {slice} million units"));
    says("docs/internals/architecture.md", &format!("gives way every {slice} million units"));
    says("docs/reference/security.md", &format!("gives way every {slice} million units"));
    let resident = number("crates/memory/src/sys/linux/region.rs", "KEEP_RESIDENT") >> 20;
    says("docs/internals/architecture.md", &format!("there is more than {resident} MiB of them"));
    let grown = number("crates/memory/src/sys/linux/region.rs", "KEEP_GROWN") >> 20;
    says("docs/internals/architecture.md", &format!("Up to {grown} MiB of grown memory"));
    let row = format!("| memory that runs took, kept in each | {grown} MiB,");
    says("docs/reference/limits.md", &row);
    let idle = number("src/runtime.rs", "MAX_IDLE");
    let least = number("src/runtime.rs", "MIN_IDLE");
    let row =
        format!("| idle memories kept | {idle}, or as many as `concurrency`, at least {least};");
    says("docs/reference/limits.md", &row);
    let stacks = number("crates/memory/src/sys/linux/stacks.rs", "MAX_IDLE");
    let resident = number("crates/memory/src/sys/linux/stacks.rs", "MAX_RESIDENT") >> 10;
    says(
        "docs/reference/limits.md",
        &format!("| idle stacks kept | {stacks}, each of {resident} KiB |"),
    );
    says("docs/reference/security.md", &format!("the upper {resident} KiB are zeroed"));
    says("docs/internals/architecture.md", &format!("At most {idle} idle regions are kept"));
}

#[test]
fn every_frame_of_the_runner_is_in_the_table() {
    let table = text("docs/internals/architecture.md");
    let mut found = 0;
    for file in files("python-wasm/runner") {
        for call in fs::read_to_string(&file).unwrap().split("(b\"").skip(1) {
            let frame = call.split('"').next().unwrap();
            // Other byte strings are longer, or not letters.
            if frame.len() == 1 && frame.chars().all(|c| c.is_ascii_lowercase()) {
                found += 1;
                let row = table.lines().any(|line| {
                    line.starts_with('|')
                        && line.split('|').nth(1).is_some_and(|c| c.contains(&format!("`{frame}`")))
                });
                assert!(row, "{}: the frame {frame} is not in the table", file.display());
            }
        }
    }
    assert!(found >= 9, "only {found} frames were found: are they sent in another way now?");
}

/// Returns the value of the constant `name` in a source file: numbers, joined by `*` or `<<`.
fn number(file: &str, name: &str) -> u64 {
    let source = text(file);
    let value = source.lines().find_map(|line| {
        let line = line.trim_start();
        let line =
            line.strip_prefix("pub(crate) ").or(line.strip_prefix("pub(super) ")).unwrap_or(line);
        let rest = line.strip_prefix("const ").unwrap_or(line).strip_prefix(name)?;
        let (kind, value) = rest.split_once('=')?;
        (kind.starts_with(':') || kind.trim().is_empty()).then(|| value.to_owned())
    });
    let value = value.unwrap_or_else(|| panic!("{file} has no constant {name}"));
    let value = value.split(['#', ';']).next().unwrap();
    let plain = |text: &str| {
        let digits = text.trim().replace('_', "");
        digits.parse::<u64>().unwrap_or_else(|_| panic!("{file}: {name} is {value}"))
    };
    if let Some((number, bits)) = value.split_once("<<") {
        return plain(number) << plain(bits);
    }
    value.split('*').map(plain).product()
}

fn limits(phrases: &[String]) {
    for phrase in phrases {
        says("docs/reference/limits.md", phrase);
    }
}

/// Asserts that a document contains a phrase, regardless of line breaks.
fn says(document: &str, phrase: &str) {
    let words = text(document).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(phrase), "{document} does not say: {phrase}");
}

/// Formats a size like the documents.
fn bytes(number: impl TryInto<u64>) -> String {
    let number = number.try_into().unwrap_or_default();
    match number.trailing_zeros() {
        30.. => format!("{} GiB", count(number >> 30)),
        20.. => format!("{} MiB", count(number >> 20)),
        _ => format!("{} bytes", count(number)),
    }
}

/// Formats a number with thousands separators.
fn count(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().unwrap_or_default().to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

fn text(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns all Python files in a directory and its subdirectories.
fn files(directory: &str) -> Vec<PathBuf> {
    let (mut files, mut folders) =
        (Vec::new(), vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(directory)]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == "py") {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}
