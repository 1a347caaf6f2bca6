# aim = "others"
# tries = "Registers a class of its own as a base that the next one tests for."
# then_prints = "False"
import collections.abc

collections.abc.Mapping.register(int)
# --- then
import collections.abc

print(isinstance(1, collections.abc.Mapping))
