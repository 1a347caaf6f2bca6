"""Reads what the build needs from WebAssembly files: imports, exports, names, symbols."""

SYMBOL_TABLE = 8
FUNCTION, DATA, GLOBAL, SECTION, TAG, TABLE = range(6)
WEAK, LOCAL, UNDEFINED, EXPLICIT_NAME = 0x01, 0x02, 0x10, 0x40


class FormatError(Exception):
    """A file is not a WebAssembly module."""


class Reader:
    def __init__(self, data, at=0, end=None):
        self.data, self.at, self.end = data, at, len(data) if end is None else end

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def number(self):
        result = shift = 0
        while True:
            byte = self.byte()
            result |= (byte & 0x7F) << shift
            if byte < 0x80:
                return result
            shift += 7

    def name(self):
        size = self.number()
        self.at += size
        return self.data[self.at - size : self.at].decode("utf-8", "surrogateescape")

    def limits(self):
        flags = self.number()
        self.number()
        if flags & 1:
            self.number()


def number(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def text(value):
    encoded = value.encode("utf-8", "surrogateescape")
    return number(len(encoded)) + encoded


def sections(data):
    """Yields (id, name, start of the header, start of the contents, end) of each section."""
    if data[:8] != b"\0asm\1\0\0\0":
        raise FormatError("is not a WebAssembly module")
    reader = Reader(data, 8)
    while reader.at < len(data):
        header = reader.at
        kind = reader.byte()
        size = reader.number()
        end = reader.at + size
        name = reader.name() if kind == 0 else None
        yield kind, name, header, reader.at, end
        reader.at = end


def imports(data):
    """Returns (module, name, kind) of each import."""
    out = []
    for kind, _, _, start, end in sections(data):
        if kind != 2:
            continue
        reader = Reader(data, start, end)
        for _ in range(reader.number()):
            module, name, what = reader.name(), reader.name(), reader.byte()
            if what == 0:
                reader.number()
            elif what == 1:
                reader.byte()
                reader.limits()
            elif what == 2:
                reader.limits()
            elif what == 3:
                reader.at += 2
            else:
                reader.byte()
                reader.number()
            out.append((module, name, what))
    return out


def exports(data):
    """Returns (name, kind) of each export."""
    out = []
    for kind, _, _, start, end in sections(data):
        if kind == 7:
            reader = Reader(data, start, end)
            for _ in range(reader.number()):
                name, what = reader.name(), reader.byte()
                reader.number()
                out.append((name, what))
    return out


def function_names(data):
    """Returns the names that exactly one function has."""
    seen, twice = set(), set()
    for kind, name, _, start, end in sections(data):
        if kind != 0 or name != "name":
            continue
        reader = Reader(data, start, end)
        while reader.at < end:
            part = reader.byte()
            size = reader.number()
            after = reader.at + size
            if part == 1:
                for _ in range(reader.number()):
                    reader.number()
                    function = reader.name()
                    (twice if function in seen else seen).add(function)
            reader.at = after
    return seen - twice


def symbols(data, rename=None):
    """Returns (kind, flags, name, imported) of each symbol of an object file, and the file with the
    names of defined symbols changed by `rename`. Functions that are not defined are imported as
    `imported`, a module and a name."""
    functions = [(module, name) for module, name, kind in imports(data) if kind == 0]
    found, replaced = [], data
    for kind, section, header, start, end in sections(data):
        if kind != 0 or section != "linking":
            continue
        reader = Reader(data, start, end)
        body = bytearray(text("linking") + number(reader.number()))
        while reader.at < end:
            part_at = reader.at
            part = reader.byte()
            size = reader.number()
            after = reader.at + size
            if part != SYMBOL_TABLE:
                body += data[part_at:after]
                reader.at = after
                continue
            count = reader.number()
            table = bytearray(number(count))
            for _ in range(count):
                what, flags = reader.byte(), reader.number()
                defined = not flags & UNDEFINED
                table += bytes([what]) + number(flags)
                name = imported = None
                if what == DATA:
                    name = reader.name()
                    rest = reader.at
                    if defined:
                        for _ in range(3):
                            reader.number()
                    rest = data[rest : reader.at]
                    table += text(rename(name) if rename and defined else name) + rest
                elif what == SECTION:
                    table += number(reader.number())
                else:
                    index = reader.number()
                    table += number(index)
                    if what == FUNCTION and not defined:
                        imported = functions[index]
                    if defined or flags & EXPLICIT_NAME:
                        name = reader.name()
                        table += text(rename(name) if rename and defined else name)
                    elif imported:
                        name = imported[1]
                found.append((what, flags, name, imported))
            body += bytes([part]) + number(len(table)) + table
        replaced = data[:header] + b"\0" + number(len(body)) + bytes(body) + data[end:]
    return found, replaced


def members(archive):
    """Yields (name, contents) of each member of an archive."""
    at, long_names = 8, b""
    while at < len(archive):
        header = archive[at : at + 60]
        name, size = header[:16].decode().rstrip(), int(header[48:58])
        contents = archive[at + 60 : at + 60 + size]
        at += 60 + size + (size & 1)
        if name == "//":
            long_names = contents
        elif name != "/":
            if name.startswith("/"):
                offset = int(name[1:])
                name = long_names[offset : long_names.index(b"\n", offset)].decode()
            yield name.rstrip("/"), contents
