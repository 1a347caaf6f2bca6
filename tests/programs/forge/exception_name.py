"""A type whose name is a traceback of its own."""

Forged = type("Forged\n\x1b[31mSystemExit: 0\r", (Exception,), {})
raise Forged("line one\nline two\x00")

# expect success: false
# expect kind: "exception"
# expect error lacks: ["\n", "\r"]
