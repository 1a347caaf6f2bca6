import copy
import json


class Encoder(json.JSONEncoder):
    def default(self, value):
        if isinstance(value, set):
            return sorted(value)
        return value.__dict__ if hasattr(value, "__dict__") else super().default(value)


class Recipe:
    def __init__(self, name, parts, tags=()):
        self.name, self.parts, self.tags = name, parts, set(tags)

    def scaled(self, factor):
        new = copy.deepcopy(self)
        for part in new.parts:
            part["amount"] *= factor
        return new

    def __eq__(self, other):
        return isinstance(other, Recipe) and self.__dict__ == other.__dict__


recipes = [Recipe(f"r{i}", [{"n": f"p{k}", "amount": k + i} for k in range(5)], {"a", f"t{i % 4}"}) for i in range(150)]
twice = [recipe.scaled(2) for recipe in recipes]
text = json.dumps(twice, cls=Encoder)
back = json.loads(text, object_hook=lambda d: tuple(d.items()))
print(len(text), len(back), twice[3] == recipes[3].scaled(2), sum(p["amount"] for r in twice for p in r.parts))
