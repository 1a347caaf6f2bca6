"""A list of 20 random integers between 1 and 100 with seed 42: mean, median, deviation."""

import random
import statistics

random.seed(42)
numbers = [random.randint(1, 100) for _ in range(20)]
print(
    f"Mean: {statistics.mean(numbers)} Median: {statistics.median(numbers)} "
    f"Std: {statistics.stdev(numbers):.2f}"
)

# expect stdout: "Mean: 43.2 Median: 30.5 Std: 34.63\n"
