# aim = "time"
# tries = "Makes a class whose bases take for ever to be put in order."
bases = [object]
for level in range(400):
    bases = [type(f"C{level}{i}", tuple(bases[-20:]) if level else (object,), {}) for i in range(30)]
while True:
    type("X", tuple(bases[:20]), {})
