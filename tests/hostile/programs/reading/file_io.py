# aim = "secret"
# tries = "Uses the C class below `open`."
import _io

print(_io.FileIO("@SECRET_FILE@").readall())
