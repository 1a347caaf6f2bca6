print("started")
while True:
    print("the same line, over and over")
