rows = []
while True:
    rows.append(bytes(1 << 20))
