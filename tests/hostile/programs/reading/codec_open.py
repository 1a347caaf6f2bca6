# aim = "secret"
# tries = "Opens by `codecs`, past a replaced `builtins.open`."
import builtins
import codecs

assert codecs.open is not builtins.open
print(codecs.open("@SECRET_FILE@", encoding="latin-1").read())
