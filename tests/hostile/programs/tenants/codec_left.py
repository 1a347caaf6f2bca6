# aim = "others"
# tries = "Registers a search for codecs that answers for the next one."
# then_prints = "unknown"
import codecs

codecs.register(lambda name: codecs.lookup("rot13") if name == "custom_codec" else None)
# --- then
import codecs

try:
    codecs.lookup("custom_codec")
    print("found")
except LookupError:
    print("unknown")
