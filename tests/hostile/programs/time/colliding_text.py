# aim = "time"
# tries = "Compares keys whose hashes are the same by their own method."
class Key:
    def __hash__(self):
        return 1

    def __eq__(self, other):
        return self is other


{Key(): None for _ in range(50_000)}
