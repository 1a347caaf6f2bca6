# aim = "disk"
# tries = "Logs to files whose number has no bound."
# timeout = 4
import logging.handlers

handler = logging.handlers.RotatingFileHandler("log", maxBytes=1 << 20, backupCount=400)
record = logging.LogRecord("x", 40, "", 0, "x" * 900_000, (), None)
while True:
    handler.emit(record)
