print("started")
print(10**10**9)
