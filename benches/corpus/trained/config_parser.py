import configparser
import io

text = "\n".join(
    f"[section{i}]\nhost = server{i}.example\nport = {8000 + i}\ndebug = {'yes' if i % 2 else 'no'}\n"
    f"ratio = {i / 7:.3f}\n; comment {i}"
    for i in range(120)
)
parser = configparser.ConfigParser()
parser.read_string(text)
ports = [parser.getint(name, "port") for name in parser.sections()]
debugging = sum(parser.getboolean(name, "debug") for name in parser.sections())
parser["extra"] = {"a": "1", "b": "2"}
out = io.StringIO()
parser.write(out)
print(sum(ports), debugging, len(out.getvalue()))
