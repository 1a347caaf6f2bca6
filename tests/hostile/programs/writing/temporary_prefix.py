# aim = "outside"
# tries = "Has `tempfile` make a file outside, by a prefix with `..` in it."
import tempfile

tempfile.NamedTemporaryFile(prefix="/../../../../../../../..@OUTSIDE@/planted", delete=False).close()
