//! The examples of the tutorials that this project covers, with the corrected answers: those that
//! depend on the language, not on the sandbox, are the same on the host.

use std::fs;

use crate::case::Case;
use crate::host;
use crate::support::programs_in;

/// Prints the program's result after its own output, for comparison.
const REPORT: &str = "
import json as _json, sys as _sys
_sys.stdout.write('\\n=== ' + _json.dumps(globals().get('result')))
";

/// These programs print and compute the same on the host.
#[test]
fn the_host_agrees() {
    let mut compared = 0;
    for name in programs_in("seeds") {
        let name = format!("seeds/{name}");
        let case = Case::read(&name);
        let plain = case.expect.keys().all(|key| ["result", "stdout"].contains(&key.as_str()));
        // Dedenting, echoing and choosing the variable are features of the sandbox.
        let ordinary = !["pantheon_basic", "pantheon_echo", "pantheon_indented"]
            .iter()
            .any(|own| name.ends_with(own));
        if !plain || !ordinary || !host::has_modules_of(&name) {
            continue;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("program.py");
        fs::write(&path, case.code.clone() + REPORT).unwrap();
        let output = host::python().arg(&path).current_dir(dir.path()).output().unwrap();
        let printed = String::from_utf8(output.stdout).unwrap();
        let (stdout, result) = printed.split_once("\n=== ").unwrap_or_else(|| {
            panic!("{name}: {}", String::from_utf8_lossy(&output.stderr));
        });
        if let Some(expected) = case.expect.get("stdout") {
            assert_eq!(stdout, expected.as_str().unwrap(), "{name}");
        }
        if let Some(expected) = case.expect.get("result") {
            let found: serde_json::Value = serde_json::from_str(result).unwrap();
            assert_eq!(&found, expected, "{name}");
        }
        compared += 1;
    }
    assert!(compared >= 20, "only {compared} programs were compared");
}
