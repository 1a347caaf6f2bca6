use super::*;

#[test]
fn setup_is_done_once_and_doctor_agrees() {
    let ran = ran(&["setup", "--image", "core", "--image", "data"]).exits(0);
    assert_eq!(ran.stdout, "");
    assert!(ran.stderr.contains("image data is ready"), "{}", ran.stderr);
    let doctor = super::ran(&["doctor", "--json"]);
    let findings = doctor.json()["findings"].as_array().unwrap().clone();
    assert!(findings.len() > 2, "{findings:?}");
    assert!(findings.iter().all(|finding| finding["state"] != "bad"), "{findings:?}");
}

#[test]
fn looking_at_an_empty_cache_says_how_to_fill_it_and_makes_nothing() {
    let folder = folder(&[]);
    for cache in [".", "new", "new/cache"] {
        let ran = ran_in(folder.path(), &["--cache", cache, "doctor"]).exits(1);
        assert!(
            ran.stdout.contains("missing") && ran.stdout.contains("belljar setup"),
            "{}",
            ran.stdout
        );
        assert!(!ran.stdout.contains("bad"), "{}", ran.stdout);
        ran_in(folder.path(), &["--cache", cache, "image", "list"]).exits(0);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "{cache}");
    }
}

#[test]
fn a_cache_that_is_no_directory_is_said() {
    let folder = folder(&[("file", "")]);
    let place = folder.path().join("file");
    for command in [["run", "-c", "1"].as_slice(), &["image", "list"]] {
        let ran = ran_in(folder.path(), &[&["--cache", "file"], command].concat()).exits(3);
        let said = format!("error: {} is not a directory\nhint: ", place.display());
        assert!(ran.stderr.starts_with(&said), "{}", ran.stderr);
    }
    let ran = ran_in(folder.path(), &["--cache", "file", "doctor"]).exits(1);
    assert!(ran.stdout.contains("is not a directory"), "{}", ran.stdout);
}

/// A `pip.py` in the current directory, as in a cloned repository, must not be run: neither by
/// setup, which downloads, nor by `doctor`, which looks for pip.
#[test]
fn the_current_directory_has_no_code_for_us() {
    let folder = folder(&[("pip.py", "open('was-run', 'w').close()\nraise SystemExit(1)\n")]);
    let was_run = folder.path().join("was-run");
    let mut python = Command::new("python3");
    python.args(["-m", "pip", "--version"]).current_dir(folder.path()).output().unwrap();
    assert!(was_run.exists(), "it does nothing where Python looks there");
    fs::remove_file(&was_run).unwrap();

    let cache = tempfile::tempdir().unwrap();
    for args in [["doctor"].as_slice(), &["setup", "--image", "core"]] {
        let mut command = belljar();
        // Downloads fail at once.
        let offline = [("PIP_NO_INDEX", "1"), ("UV_OFFLINE", "1")];
        command.env("BELLJAR_CACHE", cache.path()).env_remove("BELLJAR_WHEEL").envs(offline);
        let ran: Ran = command.args(args).current_dir(folder.path()).output().unwrap().into();
        assert_ne!(ran.status, 0, "{args:?} had nothing to download");
        assert!(!was_run.exists(), "{args:?}: {}{}", ran.stdout, ran.stderr);
    }
}

/// A custom image in the test's own cache: missing, and with a damaged recipe.
#[test]
fn doctor_says_how_to_mend_an_image_of_ones_own() {
    let cache = caches::copy_of_the_shared_one();
    let folder = folder(&[("x.toml", "name = \"x\"\nbase = \"core\"\n")]);
    let on_cache = |args: &[&str]| -> Ran {
        let mut command = belljar();
        command.env("BELLJAR_CACHE", cache.path()).current_dir(folder.path()).args(args);
        command.output().unwrap().into()
    };
    let finding = || -> Value {
        let findings = on_cache(&["doctor", "--json"]).exits(1).json()["findings"].clone();
        findings.as_array().unwrap().iter().find(|f| f["what"] == "image x").unwrap().clone()
    };
    on_cache(&["image", "build", "x.toml"]).exits(0);
    let [image, recipe] = ["images/x.image", "images/x.recipe"].map(|name| cache.path().join(name));
    for suffix in ["image", "image.seal"] {
        fs::remove_file(image.with_extension(suffix)).unwrap();
    }
    let found = finding();
    assert_eq!(
        (&found["state"], &found["mend"]),
        (&json!("missing"), &json!("belljar setup --image x"))
    );
    on_cache(&["setup", "--image", "x"]).exits(0);
    assert!(image.exists());

    fs::write(&recipe, "{\"recipe\"").unwrap();
    let found = finding();
    assert_eq!(
        (&found["state"], &found["mend"]),
        (&json!("bad"), &json!("belljar image build RECIPE.toml"))
    );
    let ran = on_cache(&["run", "--image", "x", "-c", "1"]).exits(3);
    assert!(
        ran.stderr
            .contains("the recipe of image x in the cache cannot be read\nhint: build it again"),
        "{}",
        ran.stderr
    );
    let unknown = on_cache(&["run", "--image", "y", "-c", "1"]).exits(2).stderr;
    assert!(!unknown.contains(", x\n"), "{unknown}");
    on_cache(&["image", "remove", "x"]).exits(0);
    assert!(!image.exists() && !recipe.exists());
}

#[test]
fn licenses_are_listed_and_shown() {
    let list = ran(&["licenses"]).exits(0).stdout;
    for package in ["numpy", "pandas", "matplotlib"] {
        assert!(list.lines().any(|line| line.starts_with(package)), "{package} in\n{list}");
        assert!(!list.contains("===="), "a heading instead of a license in\n{list}");
    }
    let numpy = ran(&["licenses", "NumPy"]).exits(0).stdout;
    assert!(numpy.contains("NumPy Developers"), "{numpy}");
    assert!(ran(&["licenses", "--full"]).exits(0).stdout.len() > 20_000);
    ran(&["licenses", "nonesuch"]).exits(2);
    let json = ran(&["licenses", "--json"]).exits(0).json();
    assert!(json[0]["package"].is_string() && json[0].get("text").is_none());
}

#[test]
fn images_are_listed_and_inspected() {
    let list = ran(&["image", "list"]).exits(0).stdout;
    assert!(list.lines().next().unwrap().starts_with("NAME"), "{list}");
    let names: Vec<Value> = ran(&["image", "list", "--json"])
        .exits(0)
        .json()
        .as_array()
        .unwrap()
        .iter()
        .map(|image| image["name"].clone())
        .collect();
    for name in ["core", "data", "science"] {
        assert!(names.contains(&json!(name)), "{names:?}");
    }
    ran(&["setup", "--image", "data"]).exits(0);
    let page = ran(&["image", "inspect", "data"]).exits(0).stdout;
    assert!(page.contains("pandas") && page.contains("MiB"), "{page}");
    let json = ran(&["image", "inspect", "data", "--json"]).exits(0).json();
    assert_eq!((&json["built_in"], &json["ready"]), (&json!(true), &json!(true)));
    ran(&["image", "inspect", "nonesuch"]).exits(2);
}

/// Inspecting images needs no engine: with a wheel that does not exist there cannot be an engine.
#[test]
fn images_are_looked_at_without_an_engine() {
    let cache = tempfile::tempdir().unwrap();
    let image = |args: &[&str]| -> Ran {
        let mut command = belljar();
        command.arg("image").args(args).args(["--wheel", "/nowhere/at/all.whl"]);
        command.env("BELLJAR_CACHE", cache.path()).output().unwrap().into()
    };
    let list = image(&["list", "--json"]).exits(0).json();
    assert_eq!((&list[0]["name"], &list[0]["ready"]), (&json!("core"), &json!(false)));
    let page = image(&["inspect", "core"]).exits(0).stdout;
    assert!(page.contains("on first use"), "{page}");
    image(&["remove", "core"]).exits(0);
    image(&["inspect", "nonesuch"]).exits(2);
    image(&["build", "examples/plotly.toml"]).exits(2);
}

#[test]
fn an_image_is_built_used_and_removed() {
    let recipe = "name = \"cli-test\"\nbase = \"core\"\ndescription = \"A test\"\n\
                  imports = [\"heapq\"]\ninit = \"import heapq; heapq.answer = 42\"\n";
    let folder = folder(&[("cli-test.toml", recipe), ("bad.toml", "nam = \"x\"")]);
    let built = ran_in(folder.path(), &["image", "build", "cli-test.toml"]).exits(0);
    assert!(built.stderr.contains("--image cli-test"), "{}", built.stderr);
    let told = "baking image cli-test, usually about 8 s\n";
    assert!(built.stderr.starts_with(told), "{}", built.stderr);
    let quiet = ran_in(folder.path(), &["image", "build", "cli-test.toml", "--quiet"]).exits(0);
    assert_eq!(quiet.stderr, "");
    let used =
        ran(&["run", "--image", "cli-test", "-c", "import heapq; print(heapq.answer)"]).exits(0);
    assert_eq!(used.stdout, "42\n");
    let removed = ran(&["image", "remove", "cli-test", "--json"]).exits(0);
    assert_eq!(removed.json(), json!({"removed": "cli-test"}));
    ran(&["image", "inspect", "cli-test"]).exits(2);
    ran_in(folder.path(), &["image", "build", "bad.toml"]).exits(2);
}

/// A failure of a recipe's code is not a failure of the engine.
#[test]
fn a_recipe_whose_code_fails_is_the_users_to_mend() {
    let recipes = [
        ("init = \"1/0\"", "its init failed:\nTraceback", "mend the recipe's init"),
        ("imports = [\"csv\"]\ninit = \"x = (\"", "its init failed:\n", "mend the recipe's init"),
        (
            "imports = [\"torch\"]\ninit = \"x = 1\"",
            "its imports failed:\n",
            "the recipe's imports",
        ),
        ("warm_up = \"1/0\"", "its warm_up failed:\nTraceback", "mend the recipe's warm_up"),
        (
            "init = \"import os; os.open('a', os.O_CREAT | os.O_RDWR)\"",
            "descriptors [",
            "hint: close every file",
        ),
    ];
    for (lines, what, hint) in recipes {
        let recipe = format!("name = \"cli-bad\"\nbase = \"core\"\n{lines}\n");
        let folder = folder(&[("bad.toml", &recipe)]);
        let ran = ran_in(folder.path(), &["image", "build", "bad.toml"]).exits(2);
        assert!(ran.stderr.contains("error: image cli-bad: "), "{}", ran.stderr);
        assert!(ran.stderr.contains(what) && ran.stderr.contains(hint), "{}", ran.stderr);
    }
    ran(&["image", "inspect", "cli-bad"]).exits(2);
}

#[test]
fn check_finds_what_the_policy_forbids() {
    let code = "import math\nimport os\nimport nonesuch_module\nprint(eval('1'))";
    let ran = ran(&["check", "-c", code]).exits(1);
    insta::assert_snapshot!(ran.page());
    let open = super::ran(&["check", "--policy", "open", "--json", "-c", code]).exits(1).json();
    assert_eq!(open["violations"], json!([]));
    assert_eq!(open["missing_imports"], json!(["nonesuch_module"]));
    let broken = super::ran(&["check", "--policy", "open", "-c", "1 +"]).exits(1);
    assert!(broken.stdout.starts_with("line 1: SyntaxError: "), "{}", broken.stdout);
    super::ran(&["check", "--policy", "open", "--allow-import", "os", "-c", "1"]).exits(2);
    super::ran(&["check", "-c", "import math"]).exits(0);
    super::ran(&["check", "-c", "import os", "--allow-import", "os"]).exits(0);
}

#[test]
fn what_goes_in_and_out_fits_the_schemas() {
    let schema = |of| {
        let schema = ran(&["schema", of]).exits(0).json();
        let published =
            format!("{}/../../docs/schema/{of}.schema.json", env!("CARGO_MANIFEST_DIR"));
        let published: Value = serde_json::from_slice(&fs::read(published).unwrap()).unwrap();
        assert_eq!(schema, published);
        jsonschema::validator_for(&schema).unwrap()
    };
    let outcome = ran(&["run", "--json", "-c", "import pandas as pd\ndf = pd.DataFrame()\n1/0"]);
    schema("outcome").validate(&outcome.json()).unwrap();
    let request = schema("request");
    let good =
        json!({"id": 1, "code": "1", "files": {"a": "t", "b": {"base64": ""}}, "policy": "strict"});
    request.validate(&good).unwrap();
    for bad in
        [json!({"id": 1}), json!({"code": "", "cod": ""}), json!({"code": "", "files": {"a": 1}})]
    {
        assert!(request.validate(&bad).is_err(), "{bad}");
    }
}
