//! All fixed limits that a user may meet. Limits that a request or runtime can set have their
//! defaults and ceilings in `api/policy.rs`, `session/options.rs` and `runtime.rs`. The documents
//! state these numbers, and `tests/documents.rs` compares them.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

pub(crate) use belljar_value::limits::*;

// Requests.

/// Maximum length of a run's code, in bytes.
pub(crate) const MAX_CODE: usize = 10 << 20;
/// Allowed resolution of captured figures, in dots per inch.
pub(crate) const FIGURE_DPI: RangeInclusive<u32> = 1..=600;

/// Maximum number of tools of one run.
pub(crate) const MAX_TOOLS: usize = 256;
/// Maximum length of the name of a tool or of its group, in bytes.
pub(crate) const MAX_TOOL_NAME: usize = 64;
/// Maximum length of a tool's description, in bytes.
pub(crate) const MAX_TOOL_DESCRIPTION: usize = 64 << 10;
/// Ceilings of the limits on tools.
pub(crate) const MAX_TOOL_CALLS: u32 = 100_000;
pub(crate) const MAX_TOOL_ARGUMENTS: u32 = 16 << 20;
pub(crate) const MAX_TOOL_ANSWER: u32 = 64 << 20;
pub(crate) const MAX_TOOL_BYTES: u64 = 4 << 30;

// Stopping runs.

/// Time that interrupted code has to finish, including its figures and values.
pub(crate) const GRACE: Duration = Duration::from_millis(500);
/// Fuel that code interrupted for its fuel has to finish: about half a second.
pub(crate) const GRACE_FUEL: u64 = 4_000_000_000;
/// A run is stopped when it writes this many times a stream's limit: output past the limit is
/// discarded but costs host time.
pub(crate) const FLOOD_FACTOR: u64 = 64;
/// Minimum number of bytes before a run is stopped for flooding.
pub(crate) const LEAST_FLOOD: u64 = 64 << 20;

/// How long a run counts as starting. Only a few runs may be starting at once.
pub(crate) const MAX_START: Duration = Duration::from_millis(50);
/// Maximum wait for starting runs. The caller of such a run may have stopped polling it.
pub(crate) const MAX_START_WAIT: Duration = Duration::from_millis(250);

/// Time limit of a query of a session that does not read a value.
pub(crate) const QUESTION_TIME: Duration = Duration::from_secs(1);

// Guest calls.

/// Maximum size of the heap of wasm exceptions, in bytes.
pub(crate) const MAX_EXCEPTIONS: usize = 16 << 20;
/// Maximum number of open file descriptors of a guest.
pub(crate) const MAX_OPEN: usize = 256;
/// Maximum depth of a path below its preopened directory. Deeper trees burden all tools of the
/// host, including the cleanup after a run.
pub(crate) const MAX_PATH_NAMES: usize = 64;
/// Maximum length of such a path, in bytes.
pub(crate) const MAX_PATH_BYTES: usize = 2048;
/// Maximum size of guests' files that one runtime has on disk, beyond the files in memory, in
/// bytes.
pub(crate) const MAX_SPOOLED: u64 = 64 << 30;
/// Bytes that wasmtime-wasi may copy for the guest in one call.
pub(crate) const MAX_COPIED: usize = 1 << 30;
/// Maximum number of bytes of a file that one call moves. A call takes time but no fuel.
pub(crate) const MAX_MOVED: u32 = 64 << 20;
/// Maximum number of bytes that one call reads from a device, whose bytes may have to be generated.
pub(crate) const MAX_DEVICE_READ: u32 = 1 << 20;
/// Maximum number of subscriptions that one `poll_oneoff` accepts.
pub(crate) const MAX_SUBSCRIPTIONS: i32 = 1024;

// Guest messages.

/// Maximum size of a guest's frame, in bytes.
pub(crate) const MAX_FRAME: usize = 16 << 20;
/// Maximum size of data that the host decompresses or compresses in one call, and of the result, in
/// bytes.
pub(crate) const MAX_CODEC_BYTES: usize = 64 << 20;
/// Maximum number of a guest's frames in one run.
pub(crate) const MAX_FRAMES: u64 = 100_000;
/// Maximum number of plots in one run.
pub(crate) const MAX_PLOTS: usize = 1_000;
/// Maximum number of pandas objects reported in one run.
pub(crate) const MAX_DATAFRAMES: usize = 200;
/// Maximum total size of the frames of pandas objects, in bytes.
pub(crate) const MAX_DATAFRAME_BYTES: usize = 4 << 20;
/// Maximum number of warnings about failures in the harvest.
pub(crate) const MAX_WARNINGS: usize = 100;
/// Maximum size of a display frame, in bytes.
pub(crate) const MAX_DISPLAY_BYTES: usize = 8 << 20;
/// Maximum number of values, including keys, in a display frame. A value may be two bytes as text
/// but takes far more in memory.
pub(crate) const MAX_DISPLAY_VALUES: usize = 1_000_000;
/// Maximum number of forms of a displayed value.
pub(crate) const MAX_DISPLAY_FORMS: usize = 32;
/// Maximum depth of a result.
pub(crate) const MAX_VALUE_DEPTH: u32 = 32;
/// Maximum number of items of one container of a result.
pub(crate) const MAX_VALUE_ITEMS: u32 = 100_000;
/// Maximum size of a typed value's text, without its buffers, in bytes.
pub(crate) const MAX_TYPED_HEAD: usize = 8 << 20;
/// Ceiling of the limit on the total size of a typed value's buffers, in bytes.
pub(crate) const MAX_TYPED_BYTES: u32 = 1 << 30;

/// Maximum number of open tool calls: unanswered, or with an answer not yet fetched.
pub(crate) const MAX_OPEN_CALLS: usize = 256;

// Replaying a run that waits for answers.

/// Maximum size of the run's tool calls and answers as JSON, in bytes.
pub(crate) const MAX_LOGGED_BYTES: u64 = 256 << 20;
/// Maximum number of values, including keys, in these calls and answers.
pub(crate) const MAX_LOGGED_VALUES: u64 = 3_000_000;
/// Maximum nesting of the arguments or the answer of one call.
pub(crate) const MAX_LOGGED_LEVELS: u32 = MAX_TYPED_LEVELS;
/// Maximum size of the run's request as JSON, without standard input and files, in bytes.
pub(crate) const MAX_WAITING_BYTES: u64 = 1 << 30;
/// Maximum number of values, including keys, in the request.
pub(crate) const MAX_WAITING_VALUES: u64 = 1_000_000;

// Outcomes.

/// Maximum size of one call's arguments in the outcome, in bytes.
pub(crate) const MAX_RECORDED_ARGUMENTS: usize = 4 << 10;
/// Maximum size of all calls' arguments in the outcome, in bytes.
pub(crate) const MAX_RECORDED_TOGETHER: usize = 1 << 20;

/// Maximum length of the one-line error, in characters.
pub(crate) const MAX_ERROR: usize = 2_000;
/// Maximum size of an interpreter's last message after a fatal error, in bytes.
pub(crate) const MAX_FATAL_REPORT: usize = 64 << 10;
/// Maximum size of an inline figure, in bytes.
pub(crate) const MAX_INLINE: u64 = 16 << 20;
/// Maximum total size of a run's inline figures, in bytes.
pub(crate) const MAX_INLINE_TOGETHER: u64 = 64 << 20;

// Documents that a run wrote, which are opened again.

/// Maximum size of a document that is checked, in bytes.
pub(crate) const MAX_CHECKED_DOCUMENT: u64 = 32 << 20;
/// Maximum number of bytes read and inflated for all documents of a run.
pub(crate) const MAX_CHECKED_TOGETHER: u64 = 64 << 20;
/// Maximum number of parts of a checked archive.
pub(crate) const MAX_DOCUMENT_PARTS: usize = 10_000;
/// Maximum number of relations, content types and manifest entries of a checked archive.
pub(crate) const MAX_DOCUMENT_RELATIONS: usize = 40_000;
/// Maximum length of a name in a checked archive: of a part, a target or a content type, in bytes.
pub(crate) const MAX_DOCUMENT_NAME: usize = 1 << 10;
/// Maximum size of a checked part with XML, in bytes. Such parts are held in memory.
pub(crate) const MAX_DOCUMENT_XML: u64 = 16 << 20;
/// Maximum number of attributes of an element.
pub(crate) const MAX_DOCUMENT_ATTRIBUTES: usize = 4_096;
/// Maximum nesting of elements.
pub(crate) const MAX_DOCUMENT_LEVELS: usize = 1_024;
/// Maximum number of objects of a checked PDF.
pub(crate) const MAX_DOCUMENT_OBJECTS: usize = 250_000;
/// Maximum length of the description of a problem, in characters.
pub(crate) const MAX_DOCUMENT_PROBLEM: usize = 300;
/// Maximum number of documents of a run that are reported with a problem.
pub(crate) const MAX_DOCUMENT_PROBLEMS: usize = 100;
/// Maximum number of documents that a process checks at once.
pub(crate) const MAX_CHECKED_AT_ONCE: usize = 2;
/// Maximum time that a run waits for other runs' documents to be checked.
pub(crate) const MAX_CHECK_WAIT: Duration = Duration::from_secs(1);

/// Maximum number of events in an outcome.
pub(crate) const MAX_EVENTS: usize = 10_000;
/// Maximum total size of the events in an outcome, in bytes.
pub(crate) const MAX_EVENT_BYTES: usize = 32 << 20;
/// Maximum number of events that wait for a slow reader.
pub(crate) const MAX_WAITING_EVENTS: usize = 1_024;
/// Maximum total size of the events that wait for a slow reader, in bytes.
pub(crate) const MAX_WAITING_EVENT_BYTES: usize = 8 << 20;
/// Maximum time that a guest waits for a reader that reads nothing.
pub(crate) const MAX_EVENT_WAIT: Duration = Duration::from_secs(1);

// Stored data.

/// Maximum size of an image's manifest, in bytes: one or two pages of JSON.
pub(crate) const MAX_IMAGE_MANIFEST: usize = 1 << 20;
/// Maximum size of a wheel of a recipe, and of all its files, in bytes.
pub(crate) const MAX_WHEEL: u64 = 1 << 30;
/// Maximum number of files in a wheel.
pub(crate) const MAX_WHEEL_FILES: usize = 100_000;
/// Maximum size of a native module's file, in bytes.
pub(crate) const MAX_NATIVE_MODULE: usize = 64 << 20;
/// Maximum size of a bundle's manifest, in bytes: one line per file.
pub(crate) const MAX_BUNDLE_MANIFEST: usize = 4 << 20;
/// Maximum number of a session's labels.
pub(crate) const MAX_LABELS: usize = 64;
/// Maximum total size of the labels' names and values, in bytes.
pub(crate) const MAX_LABEL_BYTES: usize = 16 << 10;
/// Maximum length of a store key, in bytes.
pub(crate) const MAX_STORE_KEY: usize = 512;
/// Maximum length of a part of a store key, between two `/`, in bytes.
pub(crate) const MAX_STORE_KEY_PART: usize = 128;
/// Maximum number of condemned chunks in a store. Every save reads their list, so it must be short;
/// later garbage collections remove the remaining chunks.
pub(crate) const MAX_CONDEMNED: usize = 1 << 15;
/// Maximum length of a session's history, in runs.
pub(crate) const MAX_HISTORY: usize = 10_000;
/// Maximum size of the code and errors in a session's history as JSON, in bytes.
pub(crate) const MAX_HISTORY_RECORDS: u64 = 24 << 20;
/// Maximum total size of a session's policy, mount paths and aliases as JSON, in bytes.
pub(crate) const MAX_SESSION_SETTINGS: usize = 1 << 20;
/// Maximum size of a checkpoint's manifest, in bytes.
pub(crate) const MAX_CHECKPOINT_MANIFEST: u32 = 64 << 20;
/// Maximum total size of a checkpoint's documents, in bytes. If it is exceeded, the oldest runs of
/// the history are omitted.
pub(crate) const MAX_CHECKPOINT_DOCUMENTS: u64 = 64 << 20;
/// Maximum number of files in a checkpoint.
pub(crate) const MAX_CHECKPOINT_FILES: usize = 1_000_000;

/// Returns the time `duration` after `start`, at most a century: the platform may not represent
/// later times.
pub(crate) fn after(start: Instant, duration: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_hours(100 * 365 * 24);
    start + duration.min(CENTURY)
}
