# aim = "others"
# tries = "Leaves a profiler that prints what the next one calls."
# then_prints = "quiet"
import sys


def spy(frame, event, argument):
    if event == "call" and frame.f_code.co_name == "confidential":
        sys.stdout.write("seen\n")


sys.setprofile(spy)
# --- then
def confidential():
    return "quiet"


print(confidential())
