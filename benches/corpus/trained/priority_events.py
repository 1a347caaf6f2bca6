import heapq
import random

random.seed(3)


class Simulation:
    def __init__(self):
        self.now, self.events, self.number = 0.0, [], 0
        self.waiting, self.busy, self.served, self.waited = [], 0, 0, 0.0

    def at(self, delay, action, *args):
        heapq.heappush(self.events, (self.now + delay, self.number, action, args))
        self.number += 1

    def arrive(self):
        self.waiting.append(self.now)
        self.at(random.expovariate(1.0), self.arrive)
        self.serve()

    def serve(self):
        while self.waiting and self.busy < 2:
            self.waited += self.now - self.waiting.pop(0)
            self.busy += 1
            self.at(random.expovariate(0.6), self.leave)

    def leave(self):
        self.busy -= 1
        self.served += 1
        self.serve()

    def run(self, until):
        self.at(0, self.arrive)
        while self.events and self.now < until:
            self.now, _, action, args = heapq.heappop(self.events)
            action(*args)


simulation = Simulation()
simulation.run(2_000)
print(simulation.served, round(simulation.waited / simulation.served, 4))
