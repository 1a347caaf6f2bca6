# aim = "memory"
# tries = "Draws a figure of a billion pixels."
# needs = ["matplotlib"]
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

figure = plt.figure(figsize=(150, 150), dpi=100)
figure.canvas.draw()
import numpy

held = numpy.array(figure.canvas.buffer_rgba()) | 1
