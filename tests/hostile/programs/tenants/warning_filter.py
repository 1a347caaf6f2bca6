# aim = "others"
# tries = "Turns warnings into errors for the next one."
# then_prints = "fine"
import warnings

warnings.simplefilter("error")
# --- then
import warnings

warnings.warn("harmless")
print("fine")
