# aim = "secret"
# tries = "Looks for a variable that another tenant has."
# --- before
import sys

account = {"card": open("@SECRET_FILE@").read() if False else "hostile-secret-" + "found"}
sys.modules["account_of_victim"] = account
# --- attack
import sys

print(sys.modules.get("account_of_victim"))
