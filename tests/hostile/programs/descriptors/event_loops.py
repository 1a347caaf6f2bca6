# aim = "descriptors"
# tries = "Makes loops of events, none of which is closed."
import asyncio
import time

held = []
try:
    while True:
        held.append(asyncio.new_event_loop())
except (OSError, AttributeError):
    time.sleep(0.5)
