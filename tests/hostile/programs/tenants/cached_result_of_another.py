# aim = "secret"
# tries = "Reads a cache of the library that holds another tenant's arguments."
# --- before
import linecache

text = "hostile-secret-" + "found"
linecache.cache["<cell>"] = (len(text), None, [text], "<cell>")
# --- attack
import linecache

print(linecache.getlines("<cell>"))
