"""What `check` reads of a file, and what it refuses."""

import importlib.machinery
import importlib.util
import tomllib
import unittest
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
loader = importlib.machinery.SourceFileLoader("check", str(FOLDER / "check"))
check = importlib.util.module_from_spec(importlib.util.spec_from_loader("check", loader))
loader.exec_module(check)
LINTER = check.Linter(tomllib.loads((FOLDER / "rules.toml").read_text()))


def found(name, text):
    """The lines at which something is refused."""
    return [line for line, _ in LINTER.problems(name, check.read(name, text))]


class Reading(unittest.TestCase):
    def test_prose_of_a_page_is_checked_and_its_code_is_not(self):
        page = "Whoever asks.\n\n```rust\n// whoever\n```\n\n`whoever` [asks](whoever.md)\n\nwhoever\n"
        self.assertEqual(found("a.md", page), [1, 9])

    def test_comments_of_rust_are_checked_and_its_strings_are_not(self):
        code = 'let a = "// whoever"; // whoever\nlet b = r#"whoever "// "#;\n/// nobody\nfn c() {}\n'
        self.assertEqual(found("a.rs", code), [1, 3])

    def test_a_quote_as_a_character_does_not_begin_a_string(self):
        self.assertEqual(found("a.rs", "let a = '\"';\n// whoever\nfn b<'a>(c: &'a str) {} // nobody\n"), [2, 3])

    def test_error_messages_and_hints_are_checked(self):
        code = '#[error("{0} is none: {nobody}")]\nA,\nerror\n    .hint("ask \\"whoever\\"\\\n         nobody")\n'
        self.assertEqual(found("a.rs", code), [1, 4, 5])

    def test_comments_and_docstrings_of_python_are_checked_and_its_strings_are_not(self):
        code = 'def a():\n    """Whoever.\n\n    Nobody.\n    """\n    return "whoever"  # somebody\n'
        self.assertEqual(found("a.py", code), [2, 4, 6])

    def test_a_phrase_is_found_across_lines(self):
        self.assertEqual(found("a.rs", "    /// the one\n    /// that runs\n"), [1])
        self.assertEqual(found("a.rs", "/// the one\nstruct A;\n/// that runs\nstruct B;\n"), [])

    def test_lines_keep_their_lengths(self):
        for name, text in [("a.md", "a `b` c\n```\nd\n```\n"), ("a.rs", 'a("b"); // c\n/* d\n e */\n')]:
            read = check.read(name, text)
            self.assertEqual([*map(len, read.split("\n"))], [*map(len, text.split("\n"))])


class Links(unittest.TestCase):
    def test_links_that_lead_nowhere_are_refused(self):
        pages = {
            "docs/a.md": "# A `b`, c\n\n[x](b/c.md#d) [x](#a-b-c) [x](https://x.y/#z) `[x](no.md)`\n",
            "docs/b/c.md": "## D\n\n[x](../a.md#b) [x](d.md) [x](#no)\n\n```\n## No\n[x](no.md)\n```\n",
        }
        self.assertEqual(
            [*check.broken_links(pages, pages.__contains__)],
            [
                "docs/b/c.md: ../a.md#b: docs/a.md has no such heading",
                "docs/b/c.md: d.md does not exist",
                "docs/b/c.md: #no: docs/b/c.md has no such heading",
            ],
        )


class Sizes(unittest.TestCase):
    size = {"page_words": 4, "docs_words": 6, "readme_lines": 1}

    def test_large_pages_are_refused(self):
        pages = {"docs/a.md": "a b c d | e", "docs/b/c.md": "a\n", "README.md": "a\nb\n", "b.md": "a " * 9}
        problems = [problem.split(";")[0] for problem in check.sizes(pages, self.size)]
        self.assertEqual(problems, ["docs/a.md: 5 words", "README.md: 2 lines"])
        problems = [*check.sizes({"docs/a.md": "a b c d", "docs/b.md": "e f g"}, self.size)]
        self.assertEqual(problems, ["docs: 7 words; at most 6"])

    def test_long_lines_are_refused_where_they_can_be_broken(self):
        def long(text):
            return [line for line, _ in check.too_long(text, check.read("a.md", text), 20)]

        self.assertEqual(long("aaaa aaaa aaaa aaaa aaaa\n"), [1])
        self.assertEqual(long("| aaaa aaaa aaaa aaaa aaaa |\n"), [])
        self.assertEqual(long("```\naaaa aaaa aaaa aaaa aaaa\n```\n"), [])
        self.assertEqual(long("* aaaaaaaaaaaaaaaaaaaaaaaaaaa\n"), [])

    def test_spelling_is_checked(self):
        proses = {"docs/a.md": "a\nrecieve\n", "b.rs": "seperate teh"}
        problems = [problem.split(" ")[0] for problem in check.misspelled(proses, ["teh"])]
        self.assertEqual(sorted(problems), ["b.rs:1:", "docs/a.md:2:"])


if __name__ == "__main__":
    unittest.main()
