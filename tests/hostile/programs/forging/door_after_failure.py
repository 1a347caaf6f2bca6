# aim = "truth"
# tries = "Sends a status of success before it overflows its memory."
# control = "the module is belljar's own; on others the import fails"
# never = ["ok"]
import os

import _host

_host.call(b"s" + b'{"status":"ok"}')
_host.call(b"e{}")
os._exit(0)
