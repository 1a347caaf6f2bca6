"""The door to the host: sends frames, receives replies, in JSON.

The C encoder and scanner are bound here, once, because code that runs later may replace the `json`
module or parts of it.
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
    """Encode plain values (exact `dict`, `list`, `str`, `int`, `float`, `bool`, `None`) as UTF-8
    JSON.

    A lone surrogate, which JSON readers reject, is escaped as by `backslashreplace`.
    """
    text = "".join(_chunks(value, 0))
    try:
        return text.encode()
    except UnicodeEncodeError:
        return _replace_surrogates(_spell, text).encode()


def encoded_size(text):
    """The length of a string in JSON, without its quotes."""
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
    """The request of this run: a line that most runs share, and one with the rest.

    The former is parsed only if it has changed.
    """
    line, _, own = _call(b"r").partition(b"\n")
    if line != _STATE.line:
        settings = decode(line)
        if settings["version"] != VERSION:
            version = settings["version"]
            raise RuntimeError(f"the host speaks version {version}, the runner {VERSION}")
        # The code receives parts of the tools.
        _STATE.line = None if "tools" in settings else line
        _STATE.settings = settings
    return _STATE.settings | decode(own)


def send(op, payload):
    """Send one frame to the host; `op` is the byte with its type."""
    _call(op + encode(payload))


def send_bytes(op, payload):
    """Send one frame to the host that is not JSON."""
    _call(op + payload)


def answer_to(op, payload):
    """The host's reply to a frame; empty if the host does not support it."""
    try:
        return _call(op + encode(payload))
    except (OSError, RuntimeError):
        return b""


def receive(op):
    """The host's bytes for this run; they exist, so only memory can be missing."""
    try:
        return _call(op)
    except OSError:
        raise MemoryError from None


def convert(how, size, *data):
    """The host's decompression, compression or decoding of data.

    `size` is that of the decompressed data, or the number of values. Empty if the data are invalid.
    """
    try:
        return _call(b"".join((b"z", how, size.to_bytes(4, "little"), *data)))
    except OSError:
        raise MemoryError from None


def ask(question):
    """The host's reply to a question that is not a frame of the run."""
    return decode(_call(question))
