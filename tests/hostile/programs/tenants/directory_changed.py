# aim = "others"
# tries = "Leaves the next one in another working directory, without its files."
# then_prints = "True"
import os

os.makedirs("elsewhere", exist_ok=True)
os.chdir("elsewhere")
# --- then
import os

print("elsewhere" not in os.getcwd())
