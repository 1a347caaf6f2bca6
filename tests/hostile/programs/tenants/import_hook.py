# aim = "others"
# tries = "Leaves a finder in the import system."
# then_prints = "3"
import sys


class Finder:
    def find_spec(name, path=None, target=None):
        raise ImportError("owned")


sys.meta_path.insert(0, Finder)
sys.modules.pop("colorsys", None)
# --- then
import colorsys

print(len(colorsys.rgb_to_hsv(1, 1, 1)))
