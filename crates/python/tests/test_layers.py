"""The modules of the package import each other in no circle, not for their types either."""

import ast
from collections.abc import Iterator
from pathlib import Path

import belljar

# Types of a session that name its owner, which makes sessions. Checkers alone import these.
BACK = {("_session", "_runtime"), ("ray._sessions", "ray._pool")}


def modules_of(package: Path) -> dict[str, set[str]]:
    """The modules of a package, by path, with the modules of it that each imports anywhere."""
    paths = {_name(package, path): path for path in package.rglob("*.py")}
    imports = {}
    for name, path in paths.items():
        found = set()
        for imported in _imports(ast.parse(path.read_text()), _folder(name, path)):
            while imported and imported not in paths:
                imported = imported.rpartition(".")[0]
            found.add(imported)
        imports[name] = found - {name, ""}
    return imports


def circles(imports: dict[str, set[str]]) -> dict[str, set[str]]:
    """The imports left without modules that import nothing or that no module imports."""
    left = {name: set(found) for name, found in imports.items()}
    while True:
        imported = {one for found in left.values() for one in found}
        kept = {name for name, found in left.items() if found and name in imported}
        if len(kept) == len(left):
            return left
        left = {name: left[name] & kept for name in kept}


def _name(package: Path, path: Path) -> str:
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(part for part in parts if part != "__init__")


def _folder(name: str, path: Path) -> str:
    return name if path.name == "__init__.py" else name.rpartition(".")[0]


def _imports(tree: ast.AST, folder: str) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                up = folder.split(".") if folder else []
                up = up[: len(up) - (node.level - 1)]
                base = ".".join([*up, *([base] if base else [])])
            elif base.split(".")[0] == "belljar":
                base = base.partition(".")[2]
            else:
                continue
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)
        elif isinstance(node, ast.Import):
            own = (alias.name for alias in node.names if alias.name.startswith("belljar."))
            yield from (name.partition(".")[2] for name in own)


def test_no_modules_import_each_other_in_a_circle():
    imports = modules_of(Path(belljar.__file__).parent)
    assert {"_html", "_outcome", "_run", "agent.prompt"} <= set(imports)
    assert "_outcome" in imports["_html"]
    for module, back in BACK:
        assert back in imports[module], f"{module} does not import {back}: take it off the list"
        imports[module].remove(back)
    assert circles(imports) == {}


def test_an_outcome_knows_nothing_of_pages():
    imports = modules_of(Path(belljar.__file__).parent)
    known, rest = set(), {"_outcome"}
    while rest:
        module = rest.pop()
        known.add(module)
        rest |= imports.get(module, set()) - known
    assert "_html" not in known
    assert "_notebook" in known


def test_a_circle_is_found(tmp_path):
    (tmp_path / "sub").mkdir()
    files = {
        "__init__.py": "from .a import x",
        "a.py": "def f():\n    from .sub.b import y",
        "sub/__init__.py": "",
        "sub/b.py": "from ..c import z",
        "c.py": "from . import a",
        "d.py": "from .a import x\nimport os",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    assert circles(modules_of(tmp_path)) == {"a": {"sub.b"}, "sub.b": {"c"}, "c": {"a"}}
