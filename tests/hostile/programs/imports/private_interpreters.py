# aim = "secret"
# tries = "Starts a second interpreter, which no replaced function has reached."
import _xxsubinterpreters as interpreters

other = interpreters.create()
interpreters.run_string(other, "import os; os.write(1, open('@SECRET_FILE@').read().encode() + b'\\n')")
