# aim = "time"
# tries = "Has a result that lies about its length for ever."
class Long(list):
    def __len__(self):
        return 1

    def __iter__(self):
        while True:
            yield 1


result = Long()
