bodies = [[i * 1.5, i * 0.5, -i * 0.25, 0.0, 0.0, 0.0, 1.0 + i] for i in range(5)]
for _ in range(2_000):
    for i, a in enumerate(bodies):
        for b in bodies[i + 1 :]:
            dx, dy, dz = a[0] - b[0], a[1] - b[1], a[2] - b[2]
            force = 0.001 / ((dx * dx + dy * dy + dz * dz + 0.01) ** 1.5)
            for k, d in enumerate((dx, dy, dz)):
                a[3 + k] -= d * b[6] * force
                b[3 + k] += d * a[6] * force
    for body in bodies:
        for k in range(3):
            body[k] += 0.001 * body[3 + k]
print(f"{sum(body[0] for body in bodies):.9f}")
