//! A server in this process, and requests to it.

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use belljar::Runtime;
use belljar_server::{App, Faces, Key, KeyLimits, Keys, Owner, Service, Settings, router};
use http_body_util::BodyExt;
use serde_json::Value;
use tower::ServiceExt;

/// A server with the accounts `one` and `two`.
pub struct Place {
    pub service: Service,
    pub keys: Keys,
    pub one: String,
    pub two: String,
    router: Router,
}

impl Place {
    pub fn new() -> Self {
        Self::limited(KeyLimits::default())
    }

    /// A server with limited accounts.
    pub fn limited(limits: KeyLimits) -> Self {
        let service = Service::new(Runtime::builder().environment().build().unwrap());
        let (first, one) = Key::generate("one", limits.clone()).unwrap();
        let (second, two) = Key::generate("two", limits).unwrap();
        let keys = Keys::of(vec![first, second]);
        let mut settings = Settings::default();
        settings.faces = Faces::all();
        let app = App::new(service.clone(), keys.clone(), settings);
        Self {
            service,
            keys,
            one,
            two,
            router: router(app),
        }
    }

    /// The account of a key.
    pub fn owner(&self, key: &str) -> Owner {
        self.keys.owner(Some(key)).unwrap()
    }

    /// Sends a request and returns the response.
    pub async fn send(&self, request: Request<Body>) -> Response<Body> {
        self.router.clone().oneshot(request).await.unwrap()
    }

    /// Posts a body with a key, and returns the status and the response, parsed if it is JSON.
    pub async fn post(&self, key: &str, path: &str, body: impl Into<Body>) -> (StatusCode, Value) {
        let request = Request::post(path)
            .header("x-api-key", key)
            .header("content-type", "application/json")
            .body(body.into())
            .unwrap();
        answer(self.send(request).await).await
    }

    /// The same with a JSON body.
    pub async fn json(&self, key: &str, path: &str, body: Value) -> (StatusCode, Value) {
        self.post(key, path, body.to_string()).await
    }

    /// Sends a GET request with a key.
    pub async fn get(&self, key: &str, path: &str) -> (StatusCode, Value) {
        let request = Request::get(path).header("x-api-key", key).body(Body::empty()).unwrap();
        answer(self.send(request).await).await
    }
}

pub async fn answer(response: Response<Body>) -> (StatusCode, Value) {
    let status = response.status();
    let bytes = response.into_body().collect().await.unwrap().to_bytes();
    let text = || Value::String(String::from_utf8_lossy(&bytes).into_owned());
    (status, serde_json::from_slice(&bytes).unwrap_or_else(|_| text()))
}
