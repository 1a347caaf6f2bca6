# aim = "secret"
# tries = "Finds a class that opens files by walking from `object`, without any name of its own."
classes = ().__class__.__base__.__subclasses__()
base = next(c for c in classes if c.__name__ == "_RawIOBase" or c.__name__ == "_IOBase")
raw = next(c for c in base.__subclasses__() if "RawIOBase" in c.__name__)
file = next(c for c in raw.__subclasses__() if c.__name__ == "FileIO")
print(file("@SECRET_FILE@").read())
