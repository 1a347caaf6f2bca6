//! Answers calls of `input()`.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde_json::Value;

use super::Answering;

/// Answers calls of `input()`.
#[derive(Clone)]
pub struct Answerer(Arc<Asked>);

type Asked = dyn Fn(String) -> Pin<Box<dyn Future<Output = Option<String>> + Send>> + Send + Sync;

impl Answerer {
    /// Creates an answerer. `function` receives the prompt and returns a line without its line
    /// break, or `None` for the end of the input.
    pub fn new<F, Fut>(function: F) -> Self
    where
        F: Fn(String) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Option<String>> + Send + 'static,
    {
        Self(Arc::new(move |prompt| Box::pin(function(prompt))))
    }

    /// Calls the function. It starts when the returned future is first polled.
    pub(crate) fn ask(&self, prompt: String) -> Answering {
        let asked = Arc::clone(&self.0);
        Box::pin(async move { Ok(asked(prompt).await.map_or(Value::Null, Value::String)) })
    }
}

impl fmt::Debug for Answerer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Answerer")
    }
}

/// Two answerers are equal if they are the same object.
impl PartialEq for Answerer {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}
