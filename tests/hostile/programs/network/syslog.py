# aim = "contact"
# tries = "Logs to the port by a handler of loggers."
import logging.handlers

handler = logging.handlers.SysLogHandler(("127.0.0.1", int("@PORT@")))
handler.emit(logging.LogRecord("x", 40, "", 0, "stolen", (), None))
