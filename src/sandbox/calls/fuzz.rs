//! Entry point for fuzzing.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use serde_json::Value;

use super::{Calls, Reply, Toolset};
use crate::api::tool::{Answerer, Tool};

/// Answers frames, one per line, with three tools.
pub(crate) fn answer_frames(lines: &[u8]) -> usize {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_time().build() else {
        return 0;
    };
    let _entered = runtime.enter();
    let schema = serde_json::json!({
        "properties": {"n": {"type": "integer"}, "s": {"type": "string", "pattern": "^a+$"}},
    });
    let calls = Arc::new(Calls::default());
    calls.begin(&Toolset {
        tools: vec![
            Tool::new("echo", schema.clone(), async |arguments: Value| Ok(arguments)),
            Tool::new("never", schema.clone(), async |_: Value| {
                Ok(std::future::pending::<Value>().await)
            }),
            Tool::values("typed", schema, async |mut arguments| {
                Ok(arguments.remove("n").unwrap_or_default())
            }),
        ],
        answerer: Some(Answerer::new(async |prompt| Some(prompt))),
        ..Toolset::default()
    });
    let mut context = Context::from_waker(Waker::noop());
    let mut answered = 0;
    for frame in lines.split(|byte| *byte == b'\n') {
        let Some((opcode, payload)) = frame.split_first().filter(|(o, _)| Calls::knows(**o)) else {
            continue;
        };
        answered += match calls.answer(*opcode, payload) {
            Reply::Now(bytes) => bytes.len(),
            Reply::Later { wait, instead } => {
                calls.poll(&mut context, true);
                match pin!(wait).poll(&mut context) {
                    Poll::Ready(bytes) => bytes.len(),
                    Poll::Pending => instead.len(),
                }
            }
            Reply::Refused => 0,
        };
    }
    answered + calls.finish().calls.len()
}
