import os
from collections import defaultdict

poem = ["two roads diverged in a yellow wood", "and sorry I could not travel both", "and be one traveler"]
os.makedirs("texts", exist_ok=True)
for i in range(25):
    with open(f"texts/{i}.txt", "w") as file:
        for k in range(40):
            print(poem[(i + k) % 3], i * k, sep=" ; ", file=file)
index = defaultdict(list)
for name in sorted(os.listdir("texts")):
    with open(os.path.join("texts", name)) as file:
        for number, line in enumerate(file):
            for word in line.lower().split():
                if word.isalpha():
                    index[word].append((name, number))
sizes = [os.path.getsize(os.path.join("texts", name)) for name in os.listdir("texts")]
print(len(index), len(index["roads"]), index["wood"][:2], sum(sizes))
