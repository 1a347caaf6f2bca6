# aim = "alive"
# tries = "Lowers the process's own limit of processor time to nothing."
import resource

resource.setrlimit(resource.RLIMIT_CPU, (1, 1))
while True:
    pass
