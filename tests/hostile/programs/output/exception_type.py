# aim = "output"
# tries = "Raises an exception whose class has a name of megabytes."
raise type("E" * 20_000_000, (Exception,), {})
