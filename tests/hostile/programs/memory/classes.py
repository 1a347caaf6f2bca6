# aim = "memory"
# tries = "Makes classes, each with a table of its own."
held = []
while True:
    held.append(type("C" + str(len(held)), (), {f"a{i}": bytes(1000) + b"x" for i in range(50)}))
