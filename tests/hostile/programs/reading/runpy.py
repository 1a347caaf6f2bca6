# aim = "secret"
# tries = "Runs the file as a program, so that the error shows it."
import runpy

runpy.run_path("@SECRET_FILE@")
