from collections import OrderedDict


class Cache:
    def __init__(self, room):
        self.room, self.data, self.hits, self.misses = room, OrderedDict(), 0, 0

    def get(self, key):
        try:
            self.data.move_to_end(key)
            self.hits += 1
            return self.data[key]
        except KeyError:
            self.misses += 1
            return None

    def put(self, key, value):
        self.data[key] = value
        self.data.move_to_end(key)
        if len(self.data) > self.room:
            self.data.popitem(last=False)

    def __len__(self):
        return len(self.data)


cache = Cache(200)
for i in range(15_000):
    key = i * i % 613
    if cache.get(key) is None:
        cache.put(key, str(key))
print(cache.hits, cache.misses, len(cache))
