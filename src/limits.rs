//! Every fixed bound that a user may meet, in one place. What a request and a runtime can set has its
//! defaults and ceilings where it is set (`api/policy.rs`, `session/options.rs`, `runtime.rs`). The
//! documents state all of these numbers, and `documents.rs` compares them.

use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

// What is asked.

/// The longest code that a run takes, in bytes.
pub(crate) const MAX_CODE: usize = 10 << 20;
/// The resolution of captured figures, in dots per inch.
pub(crate) const FIGURE_DPI: RangeInclusive<u32> = 1..=600;

/// The most tools of one run.
pub(crate) const MAX_TOOLS: usize = 256;
/// The longest name of a tool, and of the group that it is in, in bytes.
pub(crate) const MAX_TOOL_NAME: usize = 64;
/// The longest description of a tool, in bytes.
pub(crate) const MAX_TOOL_DESCRIPTION: usize = 64 << 10;
/// The most that can be asked for of each limit on tools.
pub(crate) const MAX_TOOL_CALLS: u32 = 100_000;
pub(crate) const MAX_TOOL_ARGUMENTS: u32 = 16 << 20;
pub(crate) const MAX_TOOL_ANSWER: u32 = 64 << 20;
pub(crate) const MAX_TOOL_BYTES: u64 = 4 << 30;

// How a run is stopped.

/// Time that interrupted code has to come to its end, figures and values included.
pub(crate) const GRACE: Duration = Duration::from_millis(500);
/// Fuel that code interrupted for its fuel has for the same: about half a second.
pub(crate) const GRACE_FUEL: u64 = 4_000_000_000;
/// How many times its limit a stream may be written before the run is stopped: output past the
/// limit is of no use, and costs the host time.
pub(crate) const FLOOD_FACTOR: u64 = 64;
/// No flood below this many bytes.
pub(crate) const LEAST_FLOOD: u64 = 64 << 20;

/// How long a run counts as just begun: no more than a few of those go on at once.
pub(crate) const MAX_START: Duration = Duration::from_millis(50);
/// How long a run waits for those that have just begun. Whoever holds one of these may have stopped
/// to poll it.
pub(crate) const MAX_START_WAIT: Duration = Duration::from_millis(250);

/// Time that a question about a session has, where it is not the value of something.
pub(crate) const QUESTION_TIME: Duration = Duration::from_secs(1);

// What a guest does.

/// The heap of wasm exceptions may become this large, in bytes.
pub(crate) const MAX_EXCEPTIONS: usize = 16 << 20;
/// Descriptors that a guest may hold open at once.
pub(crate) const MAX_OPEN: usize = 256;
/// How many names below its preopened directory a name may lie: deeper trees and longer paths are
/// a burden to every tool of the host, those that clean up after a run included.
pub(crate) const MAX_PATH_NAMES: usize = 64;
/// How many bytes such a path may have.
pub(crate) const MAX_PATH_BYTES: usize = 2048;
/// Bytes of files of guests that one runtime has on the disk, beyond what it has in memory.
pub(crate) const MAX_SPOOLED: u64 = 64 << 30;
/// Bytes that wasmtime-wasi may copy for the guest in one call.
pub(crate) const MAX_COPIED: usize = 1 << 30;
/// Bytes of a file that one call moves at most, as it takes time but no fuel.
pub(crate) const MAX_MOVED: u32 = 64 << 20;
/// The same for a device, whose bytes may have to be made.
pub(crate) const MAX_DEVICE_READ: u32 = 1 << 20;
/// The most subscriptions that one `poll_oneoff` looks at.
pub(crate) const MAX_SUBSCRIPTIONS: i32 = 1024;

// What a guest says.

/// The largest frame that a guest may send, in bytes.
pub(crate) const MAX_FRAME: usize = 16 << 20;
/// The most frames that a guest may send in one run.
pub(crate) const MAX_FRAMES: u64 = 100_000;
/// The most plots named in one run.
pub(crate) const MAX_PLOTS: usize = 1_000;
/// The most pandas objects reported in one run.
pub(crate) const MAX_DATAFRAMES: usize = 200;
/// The most bytes of the frames of all of these together.
pub(crate) const MAX_DATAFRAME_BYTES: usize = 4 << 20;
/// The most notes of what failed in the harvest.
pub(crate) const MAX_WARNINGS: usize = 100;
/// The most bytes of one frame that displays something.
pub(crate) const MAX_DISPLAY_BYTES: usize = 8 << 20;
/// The most values, keys included, that such a frame may consist of: in memory each takes far more
/// than the two bytes that it may have as text.
pub(crate) const MAX_DISPLAY_VALUES: usize = 1_000_000;
/// The most forms of one value that is displayed.
pub(crate) const MAX_DISPLAY_FORMS: usize = 32;
/// How deep a result may be.
pub(crate) const MAX_VALUE_DEPTH: u32 = 32;
/// The most items of one container of a result.
pub(crate) const MAX_VALUE_ITEMS: u32 = 100_000;
/// How many containers deep a typed value may be.
pub(crate) const MAX_TYPED_DEPTH: u32 = 32;
/// How many levels of JSON that may take: a dictionary in the tagged form has three.
pub(crate) const MAX_TYPED_LEVELS: u32 = 120;
/// The most values that a typed value may consist of; an array counts as one.
pub(crate) const MAX_TYPED_ITEMS: usize = 250_000;
/// The most values of JSON that these may take: a `timedelta` has six.
pub(crate) const MAX_TYPED_NODES: usize = 6 * MAX_TYPED_ITEMS;
/// The most bytes of its text, without what is in buffers.
pub(crate) const MAX_TYPED_HEAD: usize = 8 << 20;
/// The most bytes of all of its buffers that may be asked for.
pub(crate) const MAX_TYPED_BYTES: u32 = 1 << 30;
/// The most buffers of a typed value.
pub(crate) const MAX_TYPED_BUFFERS: usize = 100_000;

/// The most calls of tools that are open at once: not answered, or the answer not fetched.
pub(crate) const MAX_OPEN_CALLS: usize = 256;

// What a run that may wait for an answer is begun again with.

/// The most bytes of JSON of its calls and their answers.
pub(crate) const MAX_LOGGED_BYTES: u64 = 256 << 20;
/// The most values, keys included, that these may consist of.
pub(crate) const MAX_LOGGED_VALUES: u64 = 3_000_000;
/// How many levels deep the arguments or the answer of one call may be nested.
pub(crate) const MAX_LOGGED_LEVELS: u32 = MAX_TYPED_LEVELS;
/// The most bytes of JSON of its request, without standard input and files.
pub(crate) const MAX_WAITING_BYTES: u64 = 1 << 30;
/// The most values, keys included, that the request may consist of.
pub(crate) const MAX_WAITING_VALUES: u64 = 1_000_000;

// What the host reports.

/// The most bytes of one call's arguments that the outcome repeats.
pub(crate) const MAX_RECORDED_ARGUMENTS: usize = 4 << 10;
/// The most bytes of all calls' arguments that the outcome repeats.
pub(crate) const MAX_RECORDED_TOGETHER: usize = 1 << 20;

/// The most characters of the one-line error.
pub(crate) const MAX_ERROR: usize = 2_000;
/// The most that is kept of what an interpreter printed when it gave up, in bytes.
pub(crate) const MAX_FATAL_REPORT: usize = 64 << 10;
/// Figures larger than this are not given inline, in bytes.
pub(crate) const MAX_INLINE: u64 = 16 << 20;
/// The most bytes of all of a run's figures that are given inline.
pub(crate) const MAX_INLINE_TOGETHER: u64 = 64 << 20;

/// The most events of one run that are listed in its outcome.
pub(crate) const MAX_EVENTS: usize = 10_000;
/// The most bytes that these take.
pub(crate) const MAX_EVENT_BYTES: usize = 32 << 20;
/// The most events that wait for a slow reader.
pub(crate) const MAX_WAITING_EVENTS: usize = 1_024;
/// The most bytes that these take.
pub(crate) const MAX_WAITING_EVENT_BYTES: usize = 8 << 20;
/// How long a guest waits for a reader that reads nothing.
pub(crate) const MAX_EVENT_WAIT: Duration = Duration::from_secs(1);

// What is kept.

/// The longest manifest of an image, in bytes: it is a page or two of JSON.
pub(crate) const MAX_IMAGE_MANIFEST: usize = 1 << 20;
/// The longest manifest of a bundle, in bytes: a line for each of its files.
pub(crate) const MAX_BUNDLE_MANIFEST: usize = 4 << 20;
/// Labels of a session.
pub(crate) const MAX_LABELS: usize = 64;
/// Bytes of their names and values together.
pub(crate) const MAX_LABEL_BYTES: usize = 16 << 10;
/// The longest key in a store, in bytes.
pub(crate) const MAX_STORE_KEY: usize = 512;
/// The longest part of one, between two `/`.
pub(crate) const MAX_STORE_KEY_PART: usize = 128;
/// The most chunks of a store that are condemned at the same time. Every save reads the list of them, so
/// it stays small; the rest is left to later collections.
pub(crate) const MAX_CONDEMNED: usize = 1 << 15;
/// The longest history of a session, in runs.
pub(crate) const MAX_HISTORY: usize = 10_000;
/// The most bytes of code and errors in the history of a session, as JSON.
pub(crate) const MAX_HISTORY_RECORDS: u64 = 24 << 20;
/// The longest policy, paths of mounts and aliases of a session, in bytes of JSON together.
pub(crate) const MAX_SESSION_SETTINGS: usize = 1 << 20;
/// The longest manifest of a checkpoint, in bytes.
pub(crate) const MAX_CHECKPOINT_MANIFEST: u32 = 64 << 20;
/// The most bytes of a checkpoint's documents: past them the oldest runs of the history are left out.
pub(crate) const MAX_CHECKPOINT_DOCUMENTS: u64 = 64 << 20;
/// The most files of a checkpoint.
pub(crate) const MAX_CHECKPOINT_FILES: usize = 1_000_000;

/// The time `duration` after `start`; at most a century, since later times need not exist.
pub(crate) fn after(start: Instant, duration: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_hours(100 * 365 * 24);
    start + duration.min(CENTURY)
}
