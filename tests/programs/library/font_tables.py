"""A font's tables are what the font holds, and belong to whoever asked for them."""

from matplotlib.font_manager import FontProperties, findfont, get_font
from matplotlib.ft2font import FT2Font

path = findfont(FontProperties(family="DejaVu Sans"))
font, another = get_font(path), FT2Font(path)
for name in ("head", "OS/2", "hhea", "post"):
    table = font.get_sfnt_table(name)
    assert table == another.get_sfnt_table(name), name
    table.clear()
    assert font.get_sfnt_table(name), name
print(font.get_sfnt_table("head")["unitsPerEm"], font.get_sfnt_table("pclt"))

# expect stdout: "2048 None\n"
