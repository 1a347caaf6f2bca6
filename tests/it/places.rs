//! Paths of the workspace, the working directory, and the environment of one run.

use belljar::request::Field;
use belljar::session::RestoreOptions;
use belljar::{Error, Request, SessionOptions};

use crate::support::{failed, paths, run, runtime, succeeded, tokio};

/// The fields for which a request is rejected.
fn refused(request: Request) -> Vec<Field> {
    match tokio(1).block_on(runtime().run(request)) {
        Err(Error::Refused(refusal)) => refusal.reasons.iter().map(|reason| reason.field).collect(),
        other => panic!("{other:?}"),
    }
}

fn here(code: &str) -> Request {
    Request::new(code).image("core").alias("/home/user").alias("/mnt/data")
}

#[test]
fn the_workspace_has_all_of_its_paths() {
    let code = "
import os, shutil, pathlib
print(os.getcwd(), open('in.txt').read(), open('/mnt/data/in.txt').read())
pathlib.Path('/home/user/a/b').mkdir(parents=True)
with open('/home/user/a/b/c.txt', 'w') as file:
    file.write('written')
print(os.path.exists('/workspace/a/b/c.txt'), sorted(os.listdir('/mnt/data')))
os.rename('/mnt/data/a/b/c.txt', '/workspace/d.txt')
os.utime('/home/user/d.txt', (5, 5))
shutil.copy2('d.txt', '/home/user/e.txt')
print(os.stat('/mnt/data/e.txt').st_mtime, os.path.samefile('d.txt', '/workspace/d.txt'))
os.rmdir('/mnt/data/a/b/')
os.remove('/home/user/e.txt')
os.symlink('d.txt', '/mnt/data/l')
print(os.readlink('/home/user/l'), open('/mnt/data/l').read(), os.path.isdir('/home/user/'))
with open('mod.py', 'w') as file:
    file.write('x = 7')
import mod
print(mod.x, mod.__file__)
";
    let ran = run(here(code).cwd("/home/user").file("in.txt", "given"));
    succeeded(&ran.outcome);
    assert_eq!(
        ran.outcome.stdout,
        "/home/user given given\nTrue ['a', 'in.txt']\n5.0 True\nd.txt written True\n\
         7 /home/user/mod.py\n"
    );
    assert_eq!(paths(&ran.outcome), ["d.txt", "l", "mod.py"]);
}

#[test]
fn a_directory_to_start_in_is_made_and_must_be_one() {
    let ran = run(here("import os\nprint(os.getcwd(), os.listdir('..'))").cwd("/mnt/data/x/y"));
    assert_eq!(ran.outcome.stdout, "/mnt/data/x/y ['y']\n");
    let ran = run(Request::new("print(open('f').read())")
        .image("core")
        .cwd("/workspace/d")
        .file("d/f", "1"));
    assert_eq!(ran.outcome.stdout, "1\n");
    let ran = run(here("print(1)").cwd("/mnt/data/f").file("f", ""));
    failed(&ran.outcome, belljar::outcome::ErrorKind::Exception);
    assert!(
        ran.outcome.error.unwrap().starts_with("NotADirectoryError"),
        "{:?}",
        ran.outcome.stderr
    );
    let ran = run(here("import os\nprint(os.getcwd(), os.listdir('/tmp'))").cwd("/tmp/x"));
    assert_eq!(ran.outcome.stdout, "/tmp/x ['x']\n");
    for cwd in [
        "/",
        "/tmpx",
        "/tmp/../etc",
        "/home",
        "/home/users",
        "/workspace/../tmp",
        "workspace",
        "/mnt/data/",
    ] {
        let refused = refused(here("").cwd(cwd));
        assert_eq!(refused, [Field::Cwd], "{cwd}");
    }
    for alias in ["/workspace/x", "/tmp", "/usr/bin", "data", "/", "/a/../b", "/home/user"] {
        let refused = refused(here("").alias(alias));
        assert_eq!(refused, [Field::Aliases], "{alias}");
    }
}

#[test]
fn an_alias_is_bounded_as_the_workspace_is() {
    let mut request = here(
        "import os
try:
    with open('/home/user/big', 'wb') as file: file.write(b'x' * 60_000); file.write(b'y' * 60_000)
except OSError as error: print(error.errno)
os.remove('/mnt/data/big')
for n in range(20):
    try: os.mkdir(f'/mnt/data/{n}')
    except OSError as error: print(n, error.errno); break
try: os.makedirs('/home/user/0/' + '/'.join(['d'] * 70))
except OSError as error: print(error.errno in (36, 28))
for path in ('/home/user/../../etc/passwd', '/mnt/data/../x', '/home'):
    try: os.listdir(path)
    except OSError as error: print(type(error).__name__)
",
    );
    request.limits.workspace = Some(100_000);
    request.limits.files = Some(10);
    let ran = run(request);
    succeeded(&ran.outcome);
    let lines: Vec<_> = ran.outcome.stdout.lines().collect();
    assert_eq!(lines[..3], ["28", "10 28", "True"], "{lines:?}");
    assert!(lines[3..].iter().all(|line| line.ends_with("Error")), "{lines:?}");
    assert_eq!(lines.len(), 6);
}

#[test]
fn a_session_keeps_its_places_and_undoes_the_environment_of_one_run() {
    tokio(2).block_on(async {
        let folder = tempfile::tempdir().unwrap();
        let options = SessionOptions::new().image("core").alias("/home/user").cwd("/home/user");
        let session = runtime().session(options.env("A", "1")).await.unwrap();
        let print = "import os\nprint(os.getcwd(), os.environ['A'], os.environ.get('B'))";
        let lent = Request::new(format!("{print}\nos.environ['A'] = '3'")).run_env("A", "2");
        let first = session.run(lent.run_env("B", "b").cwd("/workspace")).await.unwrap();
        assert_eq!(first.stdout, "/workspace 2 b\n");
        let failing = Request::new("import sys\nsys.exit(1)").run_env("A", "9");
        session.run(failing).await.unwrap();
        let refused = session.run(Request::new("1").alias("/x")).await.unwrap_err();
        assert!(refused.to_string().contains("set for a whole session"), "{refused}");
        session
            .run(Request::new("f = open('/home/user/f', 'w+'); f.write('1'); f.flush()"))
            .await
            .unwrap();
        session.workspace().rename("f", "g").await.unwrap();

        let checkpoint = folder.path().join("session.belljar");
        session.checkpoint(&checkpoint).await.unwrap();
        let restored = runtime().restore(RestoreOptions::file(&checkpoint)).await.unwrap();
        for session in [session, restored] {
            let later = session.run(Request::new(print)).await.unwrap();
            assert_eq!(later.stdout, "/home/user 1 None\n");
            let seen = "f.seek(0)\nprint(f.read(), open('/home/user/g').read())";
            let later = session.run(Request::new(seen)).await.unwrap();
            assert_eq!(later.stdout, "0\n1 1\n");
            session.close();
        }
    });
}
