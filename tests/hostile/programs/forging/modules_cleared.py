# aim = "answer"
# tries = "Clears the table of modules, and every module in it."
import sys

for module in list(sys.modules.values()):
    try:
        module.__dict__.clear()
    except (AttributeError, TypeError):
        pass
sys.modules.clear()
