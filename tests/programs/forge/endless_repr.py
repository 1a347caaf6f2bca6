"""A value whose `repr` never comes back: the time limit ends it, and the rest is kept."""


class Endless:
    def __repr__(self):
        while True:
            pass


print("before")
result = [1, Endless()]

# with timeout: 1
# expect stderr has: ["cannot be read: interrupted"]
# expect stdout: "before\n"
