# aim = "time"
# tries = "Ignores interrupts, alarms and terminations, and spins."
import signal

for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
while True:
    pass
