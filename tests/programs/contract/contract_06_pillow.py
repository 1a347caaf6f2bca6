from PIL import Image

Image.new("RGB", (12, 34), "red").show()
Image.new("RGB", (5, 6)).save("saved.png")

# expect plots has: ["plots/plot_1.png"]
# expect files: ["plots/plot_1.png", "saved.png"]
# expect first size: [12, 34]
