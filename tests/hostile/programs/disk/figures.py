# aim = "disk"
# tries = "Saves figures until there is no room."
# needs = ["matplotlib"]
# timeout = 5
import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy

figure = plt.figure(figsize=(20, 20))
figure.figimage(numpy.random.rand(2000, 2000, 3))
for i in range(1000):
    figure.savefig(f"{i}.png")
    with open(f"{i}.png", "rb") as made:
        data = made.read()
    for copy in range(20):
        open(f"{i}-{copy}.png", "wb").write(data)
