"""Pillow without FreeType says how text can be drawn."""

from PIL import Image, ImageDraw, ImageFont

try:
    ImageFont.truetype("DejaVuSans.ttf", 20)
except ImportError as error:
    print("_imagingft" in str(error))
ImageDraw.Draw(Image.new("RGB", (50, 50))).text((0, 0), "10 €")

# expect kind: "exception"
# expect stdout: "True\n"
# expect error has: ["latin-1"]
# expect hint has: ["matplotlib"]
