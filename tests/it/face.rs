//! Properties that embedders rely on implicitly.

use std::error::Error as _;

use belljar::error::Blame;
use belljar::images::{ImageInfo, Images};
use belljar::request::RunRequest;
use belljar::session::{RestoreOptions, Sessions};
use belljar::{Error, Outcome, Request, Run, Runtime, Session, SessionOptions, blocking};

use crate::support::runtime;

#[test]
fn what_is_shared_between_threads_can_be() {
    fn shared<T: Send + Sync + 'static>() {}
    fn sent<T: Send + 'static>() {}
    shared::<Runtime>();
    shared::<Session>();
    shared::<Sessions>();
    shared::<Images>();
    shared::<blocking::Runtime>();
    shared::<blocking::Session>();
    shared::<Request>();
    shared::<RunRequest>();
    shared::<SessionOptions>();
    shared::<Outcome>();
    shared::<ImageInfo>();
    shared::<Run>();
    shared::<Error>();
    sent::<RestoreOptions>();
}

#[test]
fn an_error_of_a_library_underneath_says_what_that_said() {
    let dir = tempfile::tempdir().unwrap();
    let recipe = dir.path().join("mine.toml");
    std::fs::write(&recipe, "name = \"mine\"\nimports = 7\n").unwrap();
    let error = runtime().images().build(&recipe).unwrap_err();
    assert_eq!((error.code(), error.blame()), ("recipe.parse", Blame::Caller));
    let cause = error.source().expect("what was wrong with the file").to_string();
    assert!(cause.contains("line 2") && cause.contains("imports"), "{cause}");
}

#[test]
fn images_are_had_without_an_engine_too() {
    let before = Runtime::builder().environment().images().unwrap();
    let names = |images: &Images| {
        let all = images.list().unwrap();
        all.into_iter().map(|image| image.name).collect::<Vec<_>>()
    };
    assert_eq!(names(&before), names(&runtime().images()));
    before.prepare("core").unwrap();
    assert!(before.get("core").unwrap().contents.is_some());
    assert_eq!(before.prepare("none").unwrap_err().code(), "image.unknown");
}
