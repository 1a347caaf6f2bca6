"""Asks for the run's own request once more: it holds nothing that the code may not know."""

import json

import _host

settings, own = map(json.loads, _host.call(b"r").splitlines())
order = settings | own
order.pop("code")
print(json.dumps(order))

# expect stdout lacks: ["/home", "/root", "/tmp/", "belljar-"]
