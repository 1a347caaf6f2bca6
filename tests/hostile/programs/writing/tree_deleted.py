# aim = "outside"
# tries = "Deletes a whole directory of the host."
import shutil

shutil.rmtree("../outside")
