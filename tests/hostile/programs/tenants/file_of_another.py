# aim = "secret"
# tries = "Reads the files in another tenant's workspace."
# --- before
open("private.txt", "w").write("hostile-secret-" + "found")
# --- attack
import glob

for name in glob.glob("**/private.txt", recursive=True) + glob.glob("/**/private.txt"):
    print(open(name).read())
