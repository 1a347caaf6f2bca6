import re
from string import Template


def render(template, context):
    def replace(match):
        value = context
        for part in match.group(1).strip().split("."):
            value = value[part] if isinstance(value, dict) else getattr(value, part)
        return str(value)

    return re.sub(r"\{\{(.*?)\}\}", replace, template)


page = "Dear {{ user.name }}, your order {{ order }} of {{ user.city }} is {{ state }}.\n" * 3
pages = [
    render(page, {"user": {"name": f"N{i}", "city": "X"}, "order": i, "state": "sent"}) for i in range(700)
]
plain = Template("$who likes ${what} and costs $$5")
texts = [plain.substitute(who=f"u{i}", what="tea") for i in range(1_500)]
print(len("".join(pages)), pages[3][:30], texts[-1])
