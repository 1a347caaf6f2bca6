import xml.etree.ElementTree as ET

root = ET.Element("library")
for i in range(350):
    book = ET.SubElement(root, "book", id=str(i), lang="en" if i % 3 else "de")
    ET.SubElement(book, "title").text = f"Title {i} & more"
    ET.SubElement(book, "price").text = f"{i * 0.75:.2f}"
text = ET.tostring(root, encoding="unicode")
parsed = ET.fromstring(text)
total = sum(float(book.find("price").text) for book in parsed.iter("book"))
german = [book.findtext("title") for book in parsed.findall("book[@lang='de']")]
print(len(text), round(total, 2), len(german), german[1])
