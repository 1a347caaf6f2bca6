# aim = "secret"
# tries = "Reads a \"resource\" of a package whose name climbs out of the package."
from importlib.resources import files

print((files("json") / "../../../../../../../../../..@SECRET_FILE@").read_text())
