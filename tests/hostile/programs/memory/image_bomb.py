# aim = "memory"
# tries = "Opens a picture that is small as a file only."
# needs = ["PIL"]
import io
from PIL import Image

Image.MAX_IMAGE_PIXELS = None
stream = io.BytesIO()
Image.new("L", (14_000, 14_000)).save(stream, "PNG", compress_level=1)
held = Image.open(stream).convert("RGBA").point(lambda x: 255)
