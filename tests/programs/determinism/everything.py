"""Prints everything that differs from run to run, unless somebody sees to it that it does not."""

import datetime
import gc
import glob
import os
import random
import secrets
import sys
import tempfile
import threading
import time
import uuid

for name in ("b", "a", "c"):
    with open(f"{name}.txt", "w") as file:
        file.write(name)
os.makedirs("d/e")

print("random", random.random(), random.getrandbits(64), random.SystemRandom().random())
print("secrets", secrets.token_hex(8), os.urandom(8).hex(), uuid.uuid4(), uuid.uuid1())
with open("/dev/urandom", "rb") as device:
    print("device", device.read(8).hex())
print("clocks", time.time(), time.time_ns(), time.monotonic(), time.perf_counter_ns())
print("processor", time.process_time(), time.thread_time() if hasattr(time, "thread_time") else 0)
print("dates", datetime.datetime.now(), datetime.datetime.now(datetime.UTC), datetime.date.today())
started = time.time()
time.sleep(2.5)
print("slept", time.time() - started)
print("addresses", id(object()), object(), lambda: 0, threading.current_thread())
print("hashes", hash("text"), hash(b"bytes"), hash(object), list({"b", "a", "c", "z"}))
print("files", os.listdir("."), glob.glob("*.txt"), sorted(os.listdir("/tmp")))
print("times", [os.stat(name).st_mtime for name in ("a.txt", "b.txt")], os.stat("d").st_ctime)
print("inodes", os.stat("a.txt").st_ino, os.stat("a.txt").st_dev, os.stat("d").st_nlink)
print("walked", [(top, sorted(dirs), files) for top, dirs, files in os.walk(".")])
print("temporary", tempfile.mkdtemp(), tempfile.NamedTemporaryFile().name)
print("process", os.getpid(), gc.get_count(), len(gc.get_objects()), sys.getswitchinterval())
print("environment", sorted(os.environ.items()), os.getcwd(), sys.argv)
print("shuffled", random.sample(range(100), 10), random.gauss(0, 1))
try:
    raise ValueError(object())
except ValueError as error:
    print("error", error)
result = {"set": {object.__name__, "x"}, "object": object(), "now": datetime.datetime.now()}
