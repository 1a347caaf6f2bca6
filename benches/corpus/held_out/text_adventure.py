import re
import textwrap


class Room:
    def __init__(self, name, text, exits=None, things=()):
        self.name, self.text, self.exits, self.things = name, text, exits or {}, list(things)


class Game:
    VERBS = {"go": "move", "take": "take", "drop": "drop", "look": "look"}

    def __init__(self):
        self.rooms = {f"r{i}": Room(f"Room {i}", f"You are in room {i}. It is dark.", {"north": f"r{(i + 1) % 9}", "south": f"r{(i - 1) % 9}"}, [f"key{i}"]) for i in range(9)}
        self.here, self.bag, self.out = self.rooms["r0"], [], []

    def do(self, line):
        match = re.match(r"\s*(\w+)(?:\s+(?:the\s+)?(\w+))?", line.lower())
        verb = self.VERBS.get(match[1]) if match else None
        self.out.append(getattr(self, verb)(match[2]) if verb else f"I do not know {line!r}.")

    def move(self, way):
        if way not in self.here.exits:
            return "No way."
        self.here = self.rooms[self.here.exits[way]]
        return self.look(None)

    def take(self, thing):
        if thing not in self.here.things:
            return f"No {thing} here."
        self.here.things.remove(thing)
        self.bag.append(thing)
        return f"You have {', '.join(self.bag)}."

    def drop(self, thing):
        if thing in self.bag:
            self.bag.remove(thing)
            self.here.things.append(thing)
        return "Dropped."

    def look(self, _):
        return textwrap.fill(f"{self.here.text} You see {', '.join(self.here.things) or 'nothing'}.", 40)


game = Game()
for i in range(600):
    for line in ("go north", f"take the key{i % 9}", "look", "Go South", f"drop key{i % 5}", "dance"):
        game.do(line)
print(len(game.out), len("".join(game.out)), game.here.name, game.bag)
