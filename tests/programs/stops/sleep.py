import time

print("started")
time.sleep(3600)
