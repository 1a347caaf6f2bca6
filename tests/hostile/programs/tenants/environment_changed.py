# aim = "others"
# tries = "Changes the environment for whoever runs next."
# then_prints = "None"
import os

os.environ["LANG_OF_OTHER"] = "owned"
# --- then
import os

print(os.environ.get("LANG_OF_OTHER"))
