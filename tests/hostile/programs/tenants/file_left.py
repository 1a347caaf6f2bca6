# aim = "others"
# tries = "Leaves a file where the next one looks for its own."
# then_prints = "False"
open("settings.ini", "w").write("owned")
# --- then
import os

print(os.path.exists("settings.ini"))
