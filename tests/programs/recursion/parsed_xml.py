import xml.etree.ElementTree as tree

print(tree.fromstring("<a>" * 1_000_000 + "</a>" * 1_000_000).tag)
