//! The output of a run as text, for clients that want none of its other events.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use belljar::event::{OutputWatcher, Stream};
use belljar_text::unfinished;
use tokio::sync::Notify;

use crate::lock::lock;

/// Beyond this many pieces that wait to be sent, output joins the last piece of its stream. The
/// limits on output bound the bytes.
const MAX_PIECES: usize = 4096;

/// Creates a watcher, and a reader of the output.
pub(crate) fn output_channel() -> (Arc<dyn OutputWatcher>, OutputReader) {
    let shared = Arc::<Shared>::default();
    let reader = OutputReader {
        shared: Arc::clone(&shared),
        unfinished: [Vec::new(), Vec::new()],
    };
    (Arc::new(Writer(shared)), reader)
}

/// The receiver.
pub(crate) struct OutputReader {
    shared: Arc<Shared>,
    /// The start of a character, of each stream.
    unfinished: [Vec<u8>; 2],
}

struct Writer(Arc<Shared>);

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    arrived: Notify,
}

#[derive(Default)]
struct Queue {
    pieces: VecDeque<(Stream, Vec<u8>)>,
    is_over: bool,
}

impl OutputWatcher for Writer {
    fn write(&self, stream: Stream, bytes: &[u8]) {
        let mut queue = lock(&self.0.queue);
        let is_full = queue.pieces.len() >= MAX_PIECES;
        let last = queue.pieces.back_mut().filter(|(of, _)| *of == stream).map(|(_, held)| held);
        if let Some(held) = last {
            held.extend_from_slice(bytes);
        } else {
            // Neighbours are of different streams.
            let before = queue.pieces.len().checked_sub(2).filter(|_| is_full);
            match before.and_then(|before| queue.pieces.get_mut(before)) {
                Some((_, held)) => held.extend_from_slice(bytes),
                None => queue.pieces.push_back((stream, bytes.to_vec())),
            }
        }
        drop(queue);
        self.0.arrived.notify_one();
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        lock(&self.0.queue).is_over = true;
        self.0.arrived.notify_one();
    }
}

impl OutputReader {
    /// The next text; `None` after the last.
    pub(super) async fn next(&mut self) -> Option<(Stream, String)> {
        loop {
            let (piece, is_over) = {
                let mut queue = lock(&self.shared.queue);
                (queue.pieces.pop_front(), queue.is_over)
            };
            match piece {
                Some((stream, bytes)) => {
                    let held = &mut self.unfinished[usize::from(stream == Stream::Stderr)];
                    held.extend_from_slice(&bytes);
                    let whole = held.len() - unfinished(held);
                    let text: Vec<u8> = held.drain(..whole).collect();
                    if !text.is_empty() {
                        return Some((stream, String::from_utf8_lossy(&text).into_owned()));
                    }
                }
                None if is_over => return self.rest(),
                None => self.shared.arrived.notified().await,
            }
        }
    }

    /// The start of a character at the end of a stream.
    fn rest(&mut self) -> Option<(Stream, String)> {
        let streams = [Stream::Stdout, Stream::Stderr].into_iter().zip(&mut self.unfinished);
        let mut left = streams.map(|(stream, held)| (stream, std::mem::take(held)));
        let (stream, text) = left.find(|(_, held)| !held.is_empty())?;
        Some((stream, String::from_utf8_lossy(&text).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(pieces: &[(Stream, &[u8])]) -> String {
        let (watcher, mut reader) = output_channel();
        for (stream, bytes) in pieces {
            watcher.write(*stream, bytes);
        }
        drop(watcher);
        let mut all = String::new();
        while let Some((stream, text)) = reader.next().await {
            let name = if stream == Stream::Stderr {
                "err"
            } else {
                "out"
            };
            all.extend([name, ":", &text, ";"]);
        }
        all
    }

    #[tokio::test]
    async fn characters_stay_whole_and_streams_in_order() {
        let (out, err) = (Stream::Stdout, Stream::Stderr);
        let euro = "€".as_bytes();
        assert_eq!(
            read(&[(out, b"a"), (out, b"b"), (err, b"c"), (out, b"d")]).await,
            "out:ab;err:c;out:d;"
        );
        let split = [(out, &euro[..1]), (err, b"x"), (out, &euro[1..])];
        assert_eq!(read(&split).await, "err:x;out:€;");
        assert_eq!(read(&[(out, &euro[..2])]).await, "out:\u{FFFD};");
        assert_eq!(read(&[(out, b"\x80\x80\x80\x80"), (err, b"")]).await.len(), 17);
    }

    #[tokio::test]
    async fn a_slow_reader_loses_nothing() {
        let pieces = [(Stream::Stdout, &b"a"[..]), (Stream::Stderr, b"b")].repeat(MAX_PIECES);
        let all = read(&pieces).await;
        assert_eq!(all.matches(['a', 'b']).count(), 2 * MAX_PIECES);
        assert_eq!(all.matches(';').count(), MAX_PIECES);
    }
}
