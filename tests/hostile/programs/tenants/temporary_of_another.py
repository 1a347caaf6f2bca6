# aim = "secret"
# tries = "Reads what another tenant left in the directory for temporary files."
# --- before
import os
import tempfile

with open(os.path.join(tempfile.gettempdir(), "export.csv"), "w") as file:
    file.write("hostile-secret-" + "found")
# --- attack
import os
import tempfile

for top, _, names in os.walk(tempfile.gettempdir()):
    for name in names:
        if name == "export.csv":
            print(open(os.path.join(top, name)).read())
