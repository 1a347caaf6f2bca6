# aim = "secret"
# tries = "Reads what else is waiting on the host's standard input."
# control = "the control's task has no secret in it"
import sys

sys.stdin.seek(0) if sys.stdin.seekable() else None
print(sys.stdin.read()[:100000])
