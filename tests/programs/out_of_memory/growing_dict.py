seen = {}
n = 0
while True:
    seen[n] = str(n)
    n += 1
