total = 0
for i in range(700):
    for j in range(700):
        total += i * j & 7
print(total)
