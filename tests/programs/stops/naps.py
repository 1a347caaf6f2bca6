import time

print("started")
while True:
    time.sleep(0.001)
