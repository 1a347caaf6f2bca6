import io
import math

from PIL import Image, ImageDraw, ImageFilter, ImageOps

WIDTH, HEIGHT = 320, 240


def gradient(top, bottom):
    image = Image.new("RGB", (WIDTH, HEIGHT))
    draw = ImageDraw.Draw(image)
    for y in range(HEIGHT):
        part = y / (HEIGHT - 1)
        draw.line([(0, y), (WIDTH, y)], fill=tuple(round(a + (b - a) * part) for a, b in zip(top, bottom)))
    return image


def star(draw, center, radius, points, fill):
    corners = []
    for i in range(2 * points):
        size = radius if i % 2 == 0 else radius * 0.4
        angle = math.pi * i / points - math.pi / 2
        corners.append((center[0] + size * math.cos(angle), center[1] + size * math.sin(angle)))
    draw.polygon(corners, fill=fill, outline="black")


poster = gradient((20, 24, 82), (250, 130, 60))
draw = ImageDraw.Draw(poster, "RGBA")
for i in range(60):
    x, y = (i * 73) % WIDTH, (i * i * 31) % (HEIGHT // 2)
    star(draw, (x, y), 3 + i % 5, 5, (255, 255, 200, 180))
draw.ellipse([WIDTH - 90, 20, WIDTH - 40, 70], fill=(255, 240, 190))
draw.rectangle([0, HEIGHT - 40, WIDTH, HEIGHT], fill=(30, 60, 30, 220))
draw.text((16, HEIGHT - 30), "A quiet evening", fill="white")

thumbnail = poster.copy()
thumbnail.thumbnail((96, 96))
soft = poster.filter(ImageFilter.GaussianBlur(3))
gray = ImageOps.autocontrast(ImageOps.grayscale(poster))
turned = poster.rotate(30, expand=True, fillcolor="black").resize((160, 160), Image.Resampling.BICUBIC)
mask = Image.new("L", poster.size, 0)
ImageDraw.Draw(mask).ellipse([60, 20, 260, 220], fill=255)
combined = Image.composite(poster, soft, mask)

sizes = {}
for name, image in {"poster": poster, "soft": soft, "gray": gray, "turned": turned, "combined": combined}.items():
    for format in ("PNG", "BMP"):
        buffer = io.BytesIO()
        image.save(buffer, format)
        reopened = Image.open(io.BytesIO(buffer.getvalue()))
        sizes[name, format] = reopened.size
histogram = gray.histogram()
print(sizes["turned", "PNG"], thumbnail.size, len(sizes))
print("dark:", sum(histogram[:64]), "light:", sum(histogram[192:]))
colors = thumbnail.quantize(6).convert("RGB").getcolors()
print(sorted(((count, color) for count, color in colors), reverse=True)[:3])
dark = sum(1 for x in range(0, WIDTH, 4) for y in range(0, HEIGHT, 4) if sum(poster.getpixel((x, y))) < 200)
print("dark pixels:", dark)
