use sha2::Digest as _;

use super::*;

/// A run with everything that a receipt can hold, and its receipt in `folder`.
fn written(folder: &Path, more: &[&str]) -> Value {
    fs::write(folder.join("in.csv"), "a,b\n1,2\n").unwrap();
    let code = "import random, sys, os, time\nprint(random.random(), time.time(), open('in.csv').read(), sys.argv[1:])\n\
                open('out.bin', 'wb').write(os.urandom(64))\nresult = {'n': n, 'e': os.environ['E']}";
    let args = [
        &["run", "-c", code, "--deterministic=7", "--receipt", "receipt.json", "--file", "in.csv"],
        &["--set", "n=41", "--env", "E=x", "--echo", "last", "--timeout", "20"],
        more,
        &["--", "arg"],
    ];
    ran_in(folder, &args.concat()).exits(0);
    serde_json::from_slice(&fs::read(folder.join("receipt.json")).unwrap()).unwrap()
}

fn replayed(folder: &Path, receipt: &Value, more: &[&str]) -> Ran {
    fs::write(folder.join("other.json"), receipt.to_string()).unwrap();
    ran_in(folder, &[&["replay", "other.json"], more].concat())
}

fn key(folder: &Path, name: &str) -> (String, String) {
    let (private, public) = (format!("{name}.pem"), format!("{name}.pub"));
    let pair =
        ed25519_compact::KeyPair::from_seed(ed25519_compact::Seed::new([name.len() as u8; 32]));
    fs::write(folder.join(&private), pair.sk.to_pem()).unwrap();
    fs::write(folder.join(&public), pair.pk.to_pem()).unwrap();
    (private, public)
}

#[test]
fn a_run_is_the_same_again() {
    let folder = folder(&[]);
    let receipt = written(folder.path(), &[]);
    assert_eq!(receipt["receipt"], 1);
    assert_eq!(receipt["image"]["name"], "core");
    assert_eq!(receipt["request"]["files"]["in.csv"], "a,b\n1,2\n");
    // In another directory, without the files.
    let elsewhere = tempfile::tempdir().unwrap();
    let ran = replayed(elsewhere.path(), &receipt, &[]).exits(0);
    let hash = receipt["outcome"]["sha256"].as_str().unwrap();
    assert_eq!(ran.stdout, format!("same: {hash}\n"));
    assert!(ran.stderr.contains("not signed"), "{}", ran.stderr);
    let found = replayed(elsewhere.path(), &receipt, &["--json"]).exits(0).json();
    assert_eq!((&found["same"], &found["found"]), (&json!(true), &json!(hash)));
    assert_eq!(found["outcome"]["files"][0]["path"], "out.bin");
    // The hash is that of the outcome as printed.
    let digest = sha2::Sha256::digest(found["outcome"].to_string());
    let digest = digest.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    assert_eq!(digest, hash);
}

#[test]
fn a_receipt_fits_the_published_schema() {
    let folder = folder(&[]);
    let (private, _) = key(folder.path(), "own");
    let receipt = written(folder.path(), &["--sign", &private]);
    let published = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/schema/receipt.schema.json");
    let published: Value = serde_json::from_slice(&fs::read(published).unwrap()).unwrap();
    assert_eq!(ran(&["schema", "receipt"]).exits(0).json(), published);
    let validator = jsonschema::validator_for(&published).unwrap();
    validator.validate(&receipt).unwrap();
    let mut other = receipt;
    other["outcome"]["sha256"] = 1.into();
    assert!(!validator.is_valid(&other));
}

#[test]
fn what_differs_is_named() {
    let folder = folder(&[]);
    let receipt = written(folder.path(), &[]);
    let mut other = receipt.clone();
    other["request"]["set"]["n"] = 42.into();
    let ran = replayed(folder.path(), &other, &[]).exits(1);
    assert!(ran.stdout.starts_with("differs: "), "{}", ran.stdout);
    assert!(ran.stdout.contains("\n  result: here {\"n\":42,\"e\":\"x\"}\n"), "{}", ran.stdout);
    assert!(!ran.stdout.contains("\n  stdout: "), "{}", ran.stdout);
    let mut other = receipt.clone();
    other["request"]["deterministic"]["seed"] = 8.into();
    let found = replayed(folder.path(), &other, &["--json"]).exits(1).json();
    let differing: Vec<&str> =
        found["differing"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    assert!(differing.contains(&"stdout") && differing.contains(&"files"), "{differing:?}");
    let mut other = receipt;
    other["outcome"]["sha256"] = "00".repeat(32).into();
    let ran = replayed(folder.path(), &other, &[]).exits(1);
    assert!(ran.stdout.contains("only the overall hash differs"), "{}", ran.stdout);
}

#[test]
fn a_signature_tells_who_and_that_nothing_was_altered() {
    let folder = folder(&[]);
    let (private, public) = key(folder.path(), "own");
    let (_, another) = key(folder.path(), "another");
    let receipt = written(folder.path(), &["--sign", &private]);
    let ran = replayed(folder.path(), &receipt, &["--key", &public]).exits(0);
    assert!(
        ran.stdout.starts_with("same: ") && ran.stderr.contains("signed with "),
        "{}",
        ran.page()
    );
    let ran = replayed(folder.path(), &receipt, &["--key", &another]).exits(2);
    assert!(ran.stderr.contains("signed with another key"), "{}", ran.stderr);
    let alter: [fn(&mut Value); 5] = [
        |r| r["request"]["set"]["n"] = 42.into(),
        |r| r["request"]["code"] = "print(1)".into(),
        |r| r["image"]["memory"] = "00".repeat(32).into(),
        |r| r["outcome"]["sha256"] = "00".repeat(32).into(),
        |r| r["signature"]["key"] = "zz".into(),
    ];
    for alter in alter {
        let mut altered = receipt.clone();
        alter(&mut altered);
        let ran = replayed(folder.path(), &altered, &[]).exits(2);
        assert!(ran.stderr.contains("the receipt was altered"), "{}", ran.stderr);
    }
    let mut unsigned = receipt;
    unsigned.as_object_mut().unwrap().remove("signature");
    let ran = replayed(folder.path(), &unsigned, &["--key", &public]).exits(2);
    assert!(ran.stderr.contains("the receipt is not signed"), "{}", ran.stderr);
}

#[test]
fn what_cannot_be_replayed_is_told() {
    type Alter = fn(&mut Value);
    let folder = folder(&[("no.json", "{"), ("none.json", "{}"), ("key.pem", "no key")]);
    let receipt = written(folder.path(), &[]);
    let cases: [(Alter, &str); 8] = [
        (|r| r["receipt"] = 2.into(), "a receipt of version 2"),
        (|r| r["more"] = 1.into(), "unknown field `more`"),
        (|r| r["image"]["memory"] = "00".repeat(32).into(), "another core image"),
        (|r| r["image"]["artifact"] = "00".repeat(32).into(), "another build of Python"),
        (|r| r["request"]["image"] = "nonesuch".into(), "there is no image \"nonesuch\""),
        (|r| r["request"]["files"]["f"] = json!({"path": "/etc/passwd"}), "may not be named"),
        (|r| r["request"]["timeout"] = 1e9.into(), "limits.timeout"),
        (|r| r["request"]["deterministic"] = Value::Null, "is not deterministic"),
    ];
    for (alter, expected) in cases {
        let mut altered = receipt.clone();
        alter(&mut altered);
        let ran = replayed(folder.path(), &altered, &[]).exits(2);
        let shown = ran.stderr.replace("--timeout", "limits.timeout");
        assert!(shown.contains(expected), "{expected}: {}", ran.stderr);
    }
    for file in ["no.json", "none.json", "missing.json"] {
        ran_in(folder.path(), &["replay", file]).exits(2);
    }
    let base = ["run", "-c", "1", "--receipt", "r.json"];
    let ran = ran_in(folder.path(), &base).exits(2);
    assert!(ran.stderr.contains("a receipt needs a deterministic run"), "{}", ran.stderr);
    let wrong: [&[&str]; 3] = [
        &["--deterministic", "--mount", ".:/data"],
        &["--deterministic", "--sign", "key.pem"],
        &["--deterministic", "--session", "s"],
    ];
    for more in wrong {
        ran_in(folder.path(), &[&base[..], more].concat()).exits(2);
    }
}

#[test]
fn a_run_that_fails_has_a_receipt_too() {
    let folder = folder(&[]);
    let args = ["run", "-c", "1 / 0", "--deterministic", "--receipt", "r.json"];
    ran_in(folder.path(), &args).exits(1);
    let ran = ran_in(folder.path(), &["replay", "r.json"]).exits(0);
    assert!(ran.stdout.starts_with("same: "), "{}", ran.stdout);
}
