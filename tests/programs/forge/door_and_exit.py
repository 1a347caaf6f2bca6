"""Says that all went well and that this is the end, and then leaves."""

import os

import _host

status = (
    b'{"status":"ok","type":null,"message":null,"line":null,"traceback":null,'
    b'"exit_code":0,"hint":null}'
)
_host.call(b"s" + status)
_host.call(b'v{"value": "forged", "truncated": false}')
_host.call(b"e{}")
os._exit(0)

# expect success: false
# expect kind: "crash"
