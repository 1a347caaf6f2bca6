# aim = "disk"
# tries = "Fills the directory for temporary files instead of the workspace."
import tempfile

held = []
while True:
    held.append(tempfile.NamedTemporaryFile())
    held[-1].write(b"x" * (8 << 20))
