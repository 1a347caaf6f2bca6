# aim = "others"
# tries = "Changes the time zone for whoever runs next."
# then_prints = "0"
import os
import time

os.environ["TZ"] = "XXX-13"
time.tzset()
# --- then
import time

print(time.timezone)
