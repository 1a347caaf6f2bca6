import math


class Particle:
    def __init__(self, x, y, vx, vy):
        self.x, self.y, self.vx, self.vy = x, y, vx, vy

    def move(self, dt):
        self.x += self.vx * dt
        self.y += self.vy * dt
        if not 0 <= self.x <= 1:
            self.vx, self.x = -self.vx, min(max(self.x, 0.0), 1.0)
        if not 0 <= self.y <= 1:
            self.vy, self.y = -self.vy, min(max(self.y, 0.0), 1.0)

    @property
    def energy(self):
        return 0.5 * (self.vx**2 + self.vy**2)


particles = [Particle(i % 10 / 10, i % 7 / 7, math.cos(i), math.sin(i)) for i in range(120)]
for _ in range(120):
    for particle in particles:
        particle.move(0.01)
near = sum(math.hypot(a.x - b.x, a.y - b.y) < 0.1 for a in particles for b in particles)
print(round(sum(p.energy for p in particles), 6), near, round(sum(p.x for p in particles), 6))
