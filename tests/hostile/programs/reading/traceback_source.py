# aim = "secret"
# tries = "Has a traceback quote the file, by code that claims to come from it."
import traceback

try:
    exec(compile("1/0", "@SECRET_FILE@", "exec"))
except ZeroDivisionError:
    traceback.print_exc()
