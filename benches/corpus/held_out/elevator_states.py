from enum import Enum, auto


class State(Enum):
    IDLE = auto()
    UP = auto()
    DOWN = auto()
    OPEN = auto()


class Elevator:
    def __init__(self):
        self.floor, self.state, self.calls, self.log = 0, State.IDLE, [], {}

    def step(self):
        handler = getattr(self, f"on_{self.state.name.lower()}")
        self.log[self.state] = self.log.get(self.state, 0) + 1
        self.state = handler()

    def on_idle(self):
        if not self.calls:
            return State.IDLE
        return State.UP if self.calls[0] > self.floor else State.DOWN if self.calls[0] < self.floor else State.OPEN

    def on_up(self):
        self.floor += 1
        return State.OPEN if self.floor in self.calls else State.UP

    def on_down(self):
        self.floor -= 1
        return State.OPEN if self.floor in self.calls else State.DOWN

    def on_open(self):
        self.calls = [c for c in self.calls if c != self.floor]
        return State.IDLE


lift = Elevator()
for i in range(9_000):
    if i % 11 == 0:
        lift.calls.append(i * 7 % 20)
    lift.step()
print({s.name: n for s, n in lift.log.items()}, lift.floor, len(lift.calls))
