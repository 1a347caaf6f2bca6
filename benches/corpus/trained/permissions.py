from enum import Enum, Flag, IntEnum, auto


class Permission(Flag):
    READ = auto()
    WRITE = auto()
    DELETE = auto()
    SHARE = auto()
    EDITOR = READ | WRITE
    OWNER = READ | WRITE | DELETE | SHARE


class Level(IntEnum):
    GUEST = 0
    MEMBER = 10
    ADMIN = 20


class Kind(Enum):
    FOLDER = "folder"
    DOCUMENT = "document"

    @property
    def icon(self):
        return {"folder": "[+]", "document": "[=]"}[self.value]


class AccessDenied(PermissionError):
    pass


class Node:
    def __init__(self, name, kind, parent=None):
        self.name, self.kind, self.parent = name, kind, parent
        self.children, self.grants = [], {}
        if parent is not None:
            parent.children.append(self)

    def allowed(self, user):
        found = Permission(0)
        node = self
        while node is not None:
            found |= node.grants.get(user, Permission(0))
            node = node.parent
        return found

    def require(self, user, needed):
        if needed not in self.allowed(user):
            raise AccessDenied(f"{user} may not {needed.name} {self.path}")

    @property
    def path(self):
        return (self.parent.path if self.parent else "") + "/" + self.name

    def walk(self):
        yield self
        for child in self.children:
            yield from child.walk()


root = Node("root", Kind.FOLDER)
for a in range(14):
    folder = Node(f"team{a}", Kind.FOLDER, root)
    folder.grants[f"user{a}"] = Permission.OWNER
    for b in range(14):
        document = Node(f"doc{b}", Kind.DOCUMENT, folder)
        document.grants[f"user{(a + b) % 6}"] = Permission.EDITOR if b % 2 else Permission.READ
root.grants["auditor"] = Permission.READ

users = [f"user{i}" for i in range(6)] + ["auditor", "nobody"]
denied, granted = {}, 0
for node in root.walk():
    for user in users:
        for needed in Permission:
            try:
                node.require(user, needed)
                granted += 1
            except AccessDenied as error:
                denied.setdefault(needed.name, []).append(str(error))
print("granted:", granted)
for name, messages in denied.items():
    print(f"{name:<7}{len(messages):>4}  {messages[-1]}")
print([level.name for level in Level if level >= Level.MEMBER], Level(20) > Level.GUEST, Kind("folder").icon)
print(root.children[2].children[3].allowed("user5"), ~Permission.OWNER)
