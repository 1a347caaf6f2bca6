# aim = "alive"
# tries = "Changes a list while it is sorted."
# control = "CPython empties the list for the time; the class stays worth trying"
class Item:
    def __lt__(self, other):
        items.append(Item())
        items.clear()
        return True


items = [Item() for _ in range(100)]
try:
    items.sort()
except ValueError as error:
    print(error)
