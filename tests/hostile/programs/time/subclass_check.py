# aim = "time"
# tries = "Asks for a subclass over a graph of abstract classes."
import abc

classes = [abc.ABCMeta(f"C{i}", (), {}) for i in range(300)]
for base, sub in zip(classes, classes[1:]):
    base.register(sub)
while True:
    type("Fresh", (), {})
    issubclass(type("Fresh", (), {}), classes[0])
