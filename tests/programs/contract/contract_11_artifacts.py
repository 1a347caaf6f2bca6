import os

os.makedirs("a/b/c")
os.mkdir("empty")
for name in ("z.txt", "a/b/c/deep.txt", ".hidden", "ünï code.txt", "empty.bin"):
    with open(name, "wb") as file:
        file.write(b"" if name == "empty.bin" else name.encode())
os.symlink("z.txt", "link")
os.symlink("nowhere", "dangling")
os.symlink("a", "directory-link")

# expect contents: {"z.txt": "z.txt", "a/b/c/deep.txt": "a/b/c/deep.txt", ".hidden": ".hidden", "ünï code.txt": "ünï code.txt", "empty.bin": ""}
# expect files: [".hidden", "a/b/c/deep.txt", "empty.bin", "link", "z.txt", "ünï code.txt"]
