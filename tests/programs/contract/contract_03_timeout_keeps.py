import time

import matplotlib.pyplot as plt

print("computing")
plt.plot([1, 2, 3])
plt.savefig("progress.png")
plt.show()
with open("partial.txt", "w") as file:
    file.write("half of it")
total = 0
for step in range(1_000_000_000):
    total += step
    if step % 1000 == 0:
        time.sleep(0.0001)

# with timeout: 3
# expect kind: "timeout"
# expect error: "Code execution timed out after 3 seconds"
# expect stdout: "computing\n"
# expect files: ["partial.txt", "plots/plot_1.png", "progress.png"]
# expect plots: ["progress.png", "plots/plot_1.png"]
