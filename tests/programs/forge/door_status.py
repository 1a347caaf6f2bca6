"""Says through the door, ahead of the runner, that all went well."""

import _host

status = (
    b'{"status":"ok","type":null,"message":null,"line":null,"traceback":null,'
    b'"exit_code":0,"hint":null}'
)
print("before")
_host.call(b"s" + status)
_host.call(b"e{}")
raise ValueError("the truth")

# expect success: false
# expect stdout: "before\n"
