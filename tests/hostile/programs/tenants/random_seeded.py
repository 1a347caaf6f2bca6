# aim = "others"
# tries = "Seeds the random numbers that the next one takes for secret."
# then_prints = "different"
import random

random.seed(1)
# --- then
import random

print("same" if random.random() == 0.13436424411240122 else "different")
