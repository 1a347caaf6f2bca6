"""The door to the host: frames out, replies in, and the JSON they are written in.

The C encoder and scanner are bound here, once, because code that runs later may replace the
`json` module or anything in it.
"""

import json
import json.encoder
import json.scanner
import re

from _host import call as _call

VERSION = 1

_string = json.encoder.c_encode_basestring


def _refuse(value):
    raise TypeError(f"not a plain value: {type(value).__name__}")


_chunks = json.encoder.c_make_encoder(None, _refuse, _string, None, ":", ",", False, False, False)
_scan = json.scanner.c_make_scanner(json.JSONDecoder())
_replace_surrogates = re.compile("[\ud800-\udfff]").sub


def encode(value):
    """Plain values (exact `dict`, `list`, `str`, `int`, `float`, `bool`, `None`) as UTF-8 JSON.

    A lone surrogate, for which JSON readers have no form, becomes the six characters that
    `backslashreplace` writes for it.
    """
    text = "".join(_chunks(value, 0))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _replace_surrogates(_spell, text).encode()


def encoded_size(text):
    """How many bytes a string takes in JSON, without its quotes."""
    encoded = _string(text)
    size = len(encoded) if encoded.isascii() else len(encoded.encode("utf-8", "surrogatepass"))
    return size - 2


def _spell(match):
    return f"\\\\u{ord(match.group()):04x}"


def decode(data):
    return _scan(data.decode("utf-8", "surrogatepass"), 0)[0]


class _State:
    __slots__ = ("line", "settings")

    def __init__(self):
        self.line = None
        self.settings = None  # what the line says


_STATE = _State()


def fetch():
    """The request of this run: a line with what most runs have in common, and one with the rest.

    The former is read again only where it is another.
    """
    line, _, own = _call(b"r").partition(b"\n")
    if line != _STATE.line:
        settings = decode(line)
        if settings["version"] != VERSION:
            version = settings["version"]
            raise RuntimeError(f"the host speaks version {version}, the runner {VERSION}")
        # Of tools the code gets parts in its hands.
        _STATE.line = None if "tools" in settings else line
        _STATE.settings = settings
    return _STATE.settings | decode(own)


def send(op, payload):
    """Hand one frame to the host; `op` is the single byte that says what it is."""
    _call(op + encode(payload))


def send_bytes(op, payload):
    """Hand one frame to the host that is no JSON."""
    _call(op + payload)


def answer_to(op, payload):
    """What the host answers to a frame; nothing where it does not understand it."""
    try:
        return _call(op + encode(payload))
    except (OSError, RuntimeError):
        return b""


def receive(op):
    """The bytes that the host has for this run; it has them, so what can lack is memory."""
    try:
        return _call(op)
    except OSError:
        raise MemoryError from None


def ask(question):
    """The host's answer to a question that is not a frame of the run."""
    return decode(_call(question))
