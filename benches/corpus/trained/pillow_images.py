from PIL import Image, ImageDraw, ImageFilter

image = Image.new("RGB", (240, 160), "navy")
draw = ImageDraw.Draw(image)
for i in range(24):
    draw.ellipse((i * 10, i * 6, i * 10 + 30, i * 6 + 30), outline=(255, i * 10, 0))
draw.text((20, 60), "hello", fill="white")
small = image.resize((120, 80)).rotate(30).convert("L").filter(ImageFilter.GaussianBlur(2))
small.save("small.png")
histogram = small.histogram()
print(Image.open("small.png").size, sum(histogram), small.getpixel((60, 40)))
