# aim = "secret"
# tries = "Has the cache for tracebacks read the file."
import linecache

print(linecache.getlines("@SECRET_FILE@"))
