//! The example of `docs/guide/sessions.md`: the page shows this code, and it runs.

use std::path::Path;

use belljar::{Error, Request, Runtime, SessionOptions};

async fn example(runtime: &Runtime, file: &Path) -> Result<(), Error> {
    let options = SessionOptions::new()
        .image("core")
        .init_code("import json")
        .file("prices.json", r#"{"tea": 3, "coffee": 4}"#);
    let session = runtime.session(options).await?;

    session.run(Request::new("prices = json.load(open('prices.json'))")).await?;
    let outcome = session.run(Request::new("prices['tea'] += 1\nsum(prices.values())")).await?;
    assert_eq!(outcome.stdout, "8\n");

    // Two ways on from here.
    let other = session.fork().await?;
    session.run(Request::new("prices.clear()")).await?;
    assert_eq!(other.run(Request::new("len(prices)")).await?.stdout, "2\n");

    // Back to the state after the second run.
    session.rewind(2).await?;
    assert_eq!(session.run(Request::new("prices['tea']")).await?.stdout, "4\n");

    // A crash costs the run, not the session.
    let outcome = session.run(Request::new("prices.clear()\nimport os\nos._exit(1)")).await?;
    let report = outcome.session.expect("a session says so");
    assert!(report.interpreter_restarted);
    println!("{}", report.restart_reason.unwrap_or_default());
    assert_eq!(session.run(Request::new("len(prices)")).await?.stdout, "2\n");

    // Into a file, and on from there, in this process or another.
    session.checkpoint(file).await?;
    session.close();
    let restored = runtime.restore(file).await?;
    assert_eq!(restored.run(Request::new("prices['coffee']")).await?.stdout, "4\n");
    restored.close();
    other.close();
    Ok(())
}

#[test]
fn the_example_is_the_documented_one_and_runs() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("session.belljar");
    super::block_on(example(crate::support::runtime(), &file)).unwrap();
    let source = include_str!("example.rs");
    let (_, from) = source.split_once("async fn example").unwrap();
    let (body, _) = from.split_once("\n}\n").unwrap();
    let documented = include_str!("../../../docs/guide/sessions.md");
    assert!(
        documented.contains(body),
        "docs/guide/sessions.md shows another example than this one"
    );
}
