# aim = "secret"
# tries = "Reads the environment that the C library holds, which `os.environ` is only a copy of."
import posix

print(posix.environ)
