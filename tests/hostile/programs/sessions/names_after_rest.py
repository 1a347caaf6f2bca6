# aim = "outside"
# tries = "Makes files with names that climb, for whoever writes the session down."
# session = true
# suspend = true
# control = "the control writes no session down"
import os

for name in ("..\\..\\planted", "%2e%2e%2fplanted", "a/../../planted", "\N{FULLWIDTH SOLIDUS}etc", "..." * 30):
    try:
        open(name, "w").write("planted")
    except OSError:
        pass
# --- again
import os

print(sorted(os.listdir(".")))
