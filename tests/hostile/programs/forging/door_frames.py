# aim = "truth"
# tries = "Speaks to the host in the runner's name, by belljar's own module."
# control = "the module is belljar's own; on others the import fails"
# never = ["ok"]
import _host

_host.call(b"s" + b'{"status":"ok","usage":"@MARK@"}')
_host.call(b"e{}")
while True:
    pass
