//! Logs events as JSON lines, with the fields of their spans.

use std::fmt;
use std::io::Write;
use std::marker::PhantomData;
use std::time::SystemTime;

use serde_json::{Map, Number, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime, SystemTime as Clock};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::{LookupSpan, Scope};

/// Writes every event as a line to a writer made by `W`.
pub(super) struct JsonLines<S, W> {
    writer: W,
    subscriber: PhantomData<fn(S)>,
}

impl<S, W> JsonLines<S, W> {
    pub(super) fn new(writer: W) -> Self {
        Self {
            writer,
            subscriber: PhantomData,
        }
    }
}

/// The recorded fields of a span.
struct Fields(Map<String, Value>);

impl<S, W> Layer<S> for JsonLines<S, W>
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    W: for<'a> MakeWriter<'a> + 'static,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        let mut fields = Fields(Map::new());
        attributes.record(&mut fields);
        span.extensions_mut().insert(fields);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else {
            return;
        };
        if let Some(fields) = span.extensions_mut().get_mut::<Fields>() {
            values.record(fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let about = event.metadata();
        let mut line = Fields(Map::new());
        line.put("timestamp", now().into());
        line.put("level", about.level().as_str().into());
        line.put("target", about.target().into());
        // The event's fields have priority, then those of the inner span.
        for span in context.event_scope(event).into_iter().flat_map(Scope::from_root) {
            if let Some(Fields(fields)) = span.extensions().get::<Fields>() {
                line.0.extend(fields.clone());
            }
        }
        event.record(&mut line);
        let mut text = Value::Object(line.0).to_string();
        text.push('\n');
        // If the log cannot be written, the event is lost.
        let _ = self.writer.make_writer_for(about).write_all(text.as_bytes());
    }
}

/// The current time in RFC 3339.
fn now() -> String {
    let mut text = String::new();
    if Clock.format_time(&mut Writer::new(&mut text)).is_err() {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        text = since.as_secs_f64().to_string();
    }
    text
}

impl Fields {
    fn put(&mut self, name: &str, value: Value) {
        self.0.insert(name.to_owned(), value);
    }
}

impl Visit for Fields {
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field.name(), Number::from_f64(value).map_or(Value::Null, Value::Number));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field.name(), value.into());
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field.name(), value.into());
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field.name(), value.into());
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field.name(), value.into());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field.name(), format!("{value:?}").into());
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use serde_json::json;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Kept(Arc<Mutex<Vec<u8>>>);

    impl Write for Kept {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_line_has_the_event_and_the_spans_around_it() {
        let kept = Kept::default();
        let writer = kept.clone();
        let lines = JsonLines::new(move || writer.clone());
        tracing::subscriber::with_default(tracing_subscriber::registry().with(lines), || {
            let outer =
                tracing::info_span!("outer", id = 1, name = "a\"\n", late = tracing::field::Empty);
            let _outer = outer.enter();
            outer.record("late", true);
            tracing::info_span!("inner", id = 2, other = 0.5).in_scope(|| {
                tracing::warn!(count = 3_u64, "some {}", "text");
            });
            tracing::info!("after");
        });
        let text = String::from_utf8(kept.0.lock().unwrap().clone()).unwrap();
        let mut lines = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let mut first = lines.next().unwrap();
        let time = first["timestamp"].take();
        assert!(time.as_str().unwrap().ends_with('Z'), "{time}");
        let target = module_path!();
        assert_eq!(
            first,
            json!({"timestamp": null, "level": "WARN", "target": target, "id": 2, "name": "a\"\n",
                   "late": true, "other": 0.5, "count": 3, "message": "some text"})
        );
        let second = lines.next().unwrap();
        assert_eq!((&second["id"], &second["message"]), (&json!(1), &json!("after")));
        assert!(lines.next().is_none());
    }
}
