# aim = "outside"
# tries = "Rotates a log whose old name is outside."
import logging.handlers

handler = logging.handlers.RotatingFileHandler("app.log", maxBytes=1, backupCount=1)
handler.namer = lambda name: "@OUTSIDE@/planted.log"
for _ in range(3):
    handler.emit(logging.LogRecord("x", 40, "", 0, "planted", (), None))
