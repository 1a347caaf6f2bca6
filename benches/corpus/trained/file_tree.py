from pathlib import Path

root = Path("tree")
for i in range(12):
    folder = root / f"dir{i}"
    folder.mkdir(parents=True)
    for j in range(8):
        (folder / f"file{j}.{'txt' if j % 2 else 'log'}").write_text(f"line {i} {j}\n" * (j + 1))
sizes = {path.as_posix(): path.stat().st_size for path in sorted(root.rglob("*.txt"))}
lines = sum(len(path.read_text().splitlines()) for path in root.rglob("*") if path.is_file())
stems = {path.stem for path in root.glob("*/*.log")}
print(len(sizes), sum(sizes.values()), lines, sorted(stems))
