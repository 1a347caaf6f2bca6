from collections import ChainMap, defaultdict, deque


class Store:
    def __init__(self):
        self.layers, self.undo = ChainMap({}), deque(maxlen=100)

    def begin(self):
        self.layers = self.layers.new_child()

    def rollback(self):
        self.layers = self.layers.parents

    def commit(self):
        changes = self.layers.maps[0]
        self.layers = self.layers.parents
        self.layers.update(changes)
        self.undo.append(changes)

    def __setitem__(self, key, value):
        self.layers[key] = value

    def __getitem__(self, key):
        return self.layers[key]


store, stats = Store(), defaultdict(int)
for i in range(4_000):
    store.begin()
    try:
        store[f"k{i % 50}"] = i
        if i % 9 == 0:
            raise RuntimeError("conflict")
        store["total"] = store.layers.get("total", 0) + store[f"k{i % 50}"]
    except RuntimeError as error:
        store.rollback()
        stats[str(error)] += 1
    else:
        store.commit()
        stats["ok"] += 1
print(dict(stats), store["total"], len(store.undo), store["k7"])
