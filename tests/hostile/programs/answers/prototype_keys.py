# aim = "answer"
# tries = "Leaves keys that mean something to a reader in JavaScript."
# control = "harmless to a reader in Python"
result = {"__proto__": {"polluted": 1}, "constructor": {"prototype": {"x": 1}}}
