//! What a guest that is not the runner says through the door: it costs that guest its run at most.

use std::time::Duration;

use belljar::outcome::{ErrorKind, Truncated};
use belljar::request::Capture;
use belljar::{Outcome, Request, RequestLimits};

use super::{failed, outcome, runtime, succeeded};

/// Frames that the runner would not send, after which nothing that the guest says is believed.
#[tokio::test]
async fn foreign_frames_end_in_a_crash() {
    for code in [
        // Unknown, unreadable and impossible ones.
        "send Z{}",
        "send v{",
        "send p[]",
        "send s{}",
        "send i",
        "send w{\"message\":7}",
        "send d{\"name\":\"x\"}",
        "send o{}",
        // Values that were not requested.
        "send G",
        "send V",
        // Out of order: a second status, and anything after the end.
        "send s{\"status\":\"ok\"}",
        "send e{}",
        "send s{\"status\":\"ok\"}\nsend e{}\nsend p{\"path\":\"late.png\"}\nleave",
    ] {
        let outcome = outcome(&format!("{code}\nprint on")).await;
        failed(&outcome, ErrorKind::Crash, "ForgedReply");
        assert!(outcome.plots.is_empty());
    }
}

/// A guest can say that all went well. It cannot hide what the host observes.
#[tokio::test]
async fn a_forged_end_hides_nothing() {
    const FORGED: &str = "send s{\"status\":\"ok\"}\nsend x{}\nsend e{}";
    succeeded(&outcome(&format!("{FORGED}\nleave")).await);
    for (ending, name) in [
        ("trap", "Trap"),
        ("recurse", "StackOverflow"),
        ("quit 0", "ProcessExit"),
        ("raise it", "ForgedReply"),
    ] {
        let outcome = outcome(&format!("{FORGED}\n{ending}")).await;
        failed(&outcome, ErrorKind::Crash, name);
    }
    let request = Request::new(format!("{FORGED}\nspin")).fuel(1_000_000);
    let outcome = runtime().run(request).await.unwrap().outcome;
    failed(&outcome, ErrorKind::Fuel, "Fuel");
}

#[tokio::test]
async fn oversized_frames_are_refused_and_cost_only_themselves() {
    // Of each kind one byte more than is kept, and of any kind more than a frame may have.
    for (kind, bytes) in [
        ("s", (1 << 20) + 2),
        ("p", (16 << 10) + 2),
        ("w", (16 << 10) + 2),
        ("i", (16 << 10) + 2),
        ("d", (4 << 20) + 2),
        ("o", (8 << 20) + 2),
        ("e", (16 << 20) + 1),
        ("r", (16 << 20) + 1),
        ("z", (16 << 20) + 1),
    ] {
        let outcome = outcome(&format!("bulk {kind} {bytes}\nvalue 1")).await;
        succeeded(&outcome);
        assert_eq!((outcome.stdout.as_str(), &outcome.result), ("refused\n", &1.into()), "{kind}");
        assert_eq!(outcome.truncated.contains(&Truncated::Dataframes), kind == "d");
    }
    let outcome = outcome("wild\nsend ").await;
    succeeded(&outcome);
    assert_eq!(outcome.stdout, "refused\nrefused\n");
}

#[tokio::test]
async fn a_long_result_is_cut() {
    let request = Request::new(format!("value \"{}\"", "x".repeat(5000)));
    let request = request.capture(Capture::default().result_bytes(1000));
    let outcome = runtime().run(request).await.unwrap().outcome;
    succeeded(&outcome);
    assert_eq!((outcome.result, outcome.truncated), (().into(), vec![Truncated::Result]));
}

/// Past the most frames of a run the host answers none, and does not hear of its end either.
#[tokio::test]
async fn frames_are_bounded_in_number() {
    let run = |code: &str| {
        let limits = RequestLimits::default().output(16 << 20).timeout(Duration::from_mins(1));
        super::run(Request::new(code).limits(limits))
    };
    let outcome = run("repeat 99990 send w{\"message\":\"noise\"}\nprint end").await;
    succeeded(&outcome);
    assert_eq!(outcome.stderr.matches("belljar: noise\n").count(), 100, "most are dropped");
    let outcome = run("repeat 100010 send q").await;
    failed(&outcome, ErrorKind::Crash, "NoReply");
    assert_eq!(outcome.stdout.matches("refused").count(), 11);
}

#[tokio::test]
async fn names_of_figures_lead_nowhere() {
    let outcome = outcome(
        "write a.png x\nsend p{\"path\":\"../../etc/passwd\"}\nsend p{\"path\":\"/etc/passwd\"}\n\
         send p{\"path\":\"absent.png\"}\nsend p{\"path\":\"a.png\"}\nsend p{\"path\":\"a.png\"}",
    )
    .await;
    succeeded(&outcome);
    let plots: Vec<&str> = outcome.plots.iter().map(|plot| plot.path.as_str()).collect();
    assert_eq!(plots, ["a.png"]);
}

#[tokio::test]
async fn what_the_runner_may_send_is_in_the_outcome() {
    let code = "send d{\"name\":\"frame\",\"repr\":\"a b\",\"truncated\":true}\n\
                send w{\"message\":\"a note\"}\nvalue {\"x\": [1.5]}";
    let Outcome {
        dataframes,
        stderr,
        result,
        truncated,
        ..
    } = outcome(code).await;
    assert_eq!((dataframes[0].name.as_str(), dataframes[0].repr.as_str()), ("frame", "a b"));
    assert_eq!(stderr, "belljar: a note\n");
    assert_eq!(result, serde_json::json!({"x": [1.5]}));
    assert_eq!(truncated, [Truncated::Dataframes]);
}

/// Whatever a guest did, the next run of the same runtime begins with a clean memory.
#[tokio::test]
async fn the_next_run_notices_nothing() {
    let runtime = runtime();
    for hostile in ["send e{}", "set a 7\ntrap", "bulk z 9000000\nrecurse", "wild\nleave"] {
        let failed = runtime.run(Request::new(hostile)).await.unwrap().outcome;
        assert!(!failed.success, "{hostile}");
        let next = runtime.run(Request::new("get a\nprint fine")).await.unwrap().outcome;
        assert_eq!(next.stdout, "0\nfine\n", "{hostile}");
    }
}
