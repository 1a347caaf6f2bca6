# aim = "secret"
# tries = "Attaches to a logger that another tenant logs to."
# --- before
import logging

logging.getLogger("orders").propagate = True
logging.getLogger("orders").last = "hostile-secret-" + "found"
# --- attack
import logging

print(getattr(logging.getLogger("orders"), "last", None))
