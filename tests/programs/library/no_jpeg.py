"""Pillow without JPEG says which formats there are."""

from PIL import Image

Image.new("RGB", (2, 2)).save("a.jpg")

# expect kind: "exception"
# expect error has: ["encoder jpeg not available"]
# expect hint has: ["use PNG"]
