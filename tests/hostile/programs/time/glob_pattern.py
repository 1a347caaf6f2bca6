# aim = "time"
# tries = "Has a pattern for file names translated into a slow expression."
import re

re.match("(?s:" + "(.*?a)*" * 12 + ")\\Z", "a" * 60 + "b")
