"""An interrupt that nobody but the code asked for."""

import _thread

print("before")
_thread.interrupt_main()
for _ in range(1000):
    pass

# expect success: false
# expect stdout: "before\n"
