"""Short hints for common failures in this environment."""

import errno

from _belljar.protocol import replaced
from _belljar.protocol.inspecting import is_kind, text_of, type_module
from _belljar.source.tracebacks import chain
from _belljar.stand_ins.in_place import NO_OTHER

# Alternatives to packages that code often imports.
_INSTEAD = {
    "bokeh": "matplotlib",
    "cv2": "PIL and numpy",
    "dask": "pandas",
    "duckdb": "sqlite3 or pandas",
    "fastparquet": "pandas with CSV, JSON or (without `engine`) Parquet files",
    "keras": "sklearn",
    "lightgbm": "sklearn.ensemble",
    "polars": "pandas",
    "psycopg2": "sqlite3",
    "pyarrow": "pandas with CSV, JSON, Feather or (without `engine`) Parquet files",
    "pymysql": "sqlite3",
    "tensorflow": "sklearn",
    "torch": "numpy or sklearn",
    "ujson": "json",
    "orjson": "json",
    "xgboost": "sklearn.ensemble",
    "xlrd": "openpyxl",
}
# Built-in images with packages, by the modules that only they have.
_IN_IMAGES = {
    "altair": "charts",
    "coverage": "test",
    "docx": "office",
    "docxtpl": "office",
    "faker": "text",
    "fpdf": "office",
    "hypothesis": "test",
    "nltk": "text",
    "pdfminer": "office",
    "pdfplumber": "office",
    "plotly": "charts",
    "pptx": "office",
    "pytest": "test",
    "textblob": "text",
}
_NETWORK_PACKAGES = frozenset(
    "aiohttp boto3 botocore ftplib httplib2 httpx openai paramiko requests selenium urllib3 "
    "websocket websockets yfinance _ssl".split()
)
_PROCESS_NAMES = frozenset(
    "execl execle execlp execv execve execvp fork forkpty kill pipe popen posix_spawn spawnl "
    "spawnv system wait waitpid WNOHANG".split()
)
_NETWORK_NAMES = frozenset(
    "getaddrinfo gethostbyname gethostbyaddr gethostname getnameinfo socketpair".split()
)
_SYSTEM_MODULES = frozenset(
    "_curses curses fcntl grp msvcrt pwd readline resource termios tkinter _tkinter tty "
    "winreg".split()
)
_NO_NETWORK = "There is no network in this sandbox: pass the data as an input file or in the code."
_NO_PROCESS = "No other process can be started in this sandbox: use Python in this one."
_NO_INSTALL = (
    "Nothing can be installed at run time. `belljar image make --with NAME` makes an image with a "
    "package, also of many with native code."
)
_NO_THREAD = (
    "Threads and worker processes cannot be started here: call the function directly, or use "
    "asyncio for things that wait."
)
_NO_TURNS = (
    "There are no threads in this sandbox: the work of a thread is done as a whole, when it is "
    "started or waited for. Put items into a queue before code waits for them, "
    "or use asyncio."
)
_NO_TOOLS = (
    "This run has no tools: they are functions of the program that runs this code, and only "
    "it can provide them."
)
_NO_SCRYPT = "There is no scrypt without OpenSSL: `hashlib.pbkdf2_hmac` works here."
_NO_SOURCES = (
    "Only compiled code of the standard library and the packages is available, no sources: "
    "`help()`, `inspect.signature()` and the documentation strings work."
)
_NO_IMAGE_FORMAT = (
    "Pillow reads and writes PNG, GIF, BMP, PPM and TIFF here, not JPEG or WebP: use PNG."
)
_NO_FONTS = (
    "Pillow has no FreeType here, only the small `ImageFont.load_default()`, for Latin-1: draw "
    "other text and sizes with matplotlib, such as `figure.text(x, y, text, size=20)`."
)
_NO_DATA_SET = (
    "This data set is not in this build; pass it to the run as an input file, or use another, "
    "such as co2, engel, longley, macrodata, nile or sunspots."
)
_LOCKED = (
    "Connections cannot share locks in this sandbox: commit or close the writing one before "
    "another reads, or use one connection."
)
_FULL = frozenset(
    getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG") if hasattr(errno, name)
)
_BARRED = frozenset(
    getattr(errno, name)
    for name in ("EPERM", "EACCES", "EROFS", "ENOTCAPABLE")
    if hasattr(errno, name)
)
_TEMPORARY = "/tmp"  # noqa: S108 (the guest's own, gone with it)


def hint(error, cwd):
    """The hint for an uncaught exception, from the first in its chain that has a hint."""
    for one in chain(error):
        try:
            found = _of(one, cwd)
        except Exception:
            found = None
        if found is not None:
            return found
    return None


def _of(error, cwd):
    for kind, rule in _RULES:
        if is_kind(error, kind):
            found = rule(error, cwd)
            if found is not None:
                return found
    return None


def _of_library(module, found):
    """The hint, unless the image has replaced the library's module."""
    return None if replaced.is_replaced(module) else found


def _message(error):
    return text_of(error, 500, str)[0]


def _missing_module(error, _cwd):
    name = error.name
    if type(name) is not str:
        return None
    root = name.partition(".")[0]
    if root == "_decimal":
        return "`decimal` works in its pure Python form, without `_decimal`."
    if root in ("tools", "host"):
        return _NO_TOOLS
    if root in _NETWORK_PACKAGES:
        return _NO_NETWORK
    if root in _SYSTEM_MODULES:
        return f"`{root}` depends on the operating system and does not exist here."
    if root != name:
        return None
    if root in ("pip", "setuptools", "ensurepip", "venv"):
        return _NO_INSTALL
    if _message(error).startswith(f"No module named {name!r}: "):
        # The host's message says why and what to do: it exists, but not in this run.
        return None
    image = _IN_IMAGES.get(root)
    if image is not None:
        return (
            f"`{root}` is in the image `{image}`. Once `belljar setup --image {image}` has "
            "downloaded it, code that imports the module starts from it."
        )
    near = _INSTEAD.get(root)
    instead = f"; {near} is available" if near else ""
    return f"`{root}` is not installed{instead}. {_NO_INSTALL}"


def _refused_import(error, _cwd):
    if _message(error).endswith("is not allowed"):
        return "The policy of this run allows only the imports on its list."
    if error.name == "hashlib" and getattr(error, "name_from", None) == "scrypt":
        return _NO_SCRYPT
    if getattr(error, "name_from", None) == "_imagingft" or "_imagingft" in _message(error):
        return _of_library("PIL", _NO_FONTS)
    return None


def _attribute(error, _cwd):
    name = error.name
    owner = error.obj
    if type(owner) is not type(errno):
        return None
    module = owner.__name__
    if module in ("socket", "_socket") and name in _NETWORK_NAMES:
        return _NO_NETWORK
    if module in ("os", "posix") and name in _PROCESS_NAMES:
        return _NO_PROCESS
    if module == "hashlib" and name == "scrypt":
        return _NO_SCRYPT
    if module == "signal" and name in ("alarm", "setitimer", "pause"):
        return "There are no signal timers in this sandbox: the run has its own time limit."
    return None


def _os_error(error, cwd):
    number = error.errno
    if number in _FULL:
        return (
            "The workspace is full, in bytes or in files: delete what is not needed, write less, "
            "or ask for a larger limit of the workspace or of its files."
        )
    if number == errno.EMFILE or number == errno.ENFILE:
        return "Too many files are open at the same time: close them, best in a `with` statement."
    message = _message(error)
    if "does not support processes" in message:
        return _NO_PROCESS
    if message in ("could not get source code", "source code not available"):
        return _NO_SOURCES
    if message.startswith(("encoder jpeg", "decoder jpeg", "cannot identify image file")):
        return _of_library("PIL", _NO_IMAGE_FORMAT)
    if message.startswith("mmap is unavailable"):
        return (
            "Files cannot be mapped into memory here: read them, for example with `numpy.fromfile`."
        )
    if type_module(type(error)).startswith(("urllib", "http", "socket", "ssl")):
        return _NO_NETWORK
    if number == getattr(errno, "ENOTSUP", None) and _raised_in(error, "socket.py"):
        return _NO_NETWORK
    return _path(error, number, cwd)


def _path(error, number, cwd):
    path = error.filename
    if type(path) is bytes:
        path = path.decode("utf-8", "replace")
    if type(path) is not str:
        return None
    if number != errno.ENOENT and number not in _BARRED:
        return None
    if "/statsmodels/datasets/" in path:
        return _NO_DATA_SET
    own = any((path + "/").startswith(root.rstrip("/") + "/") for root in (cwd, _TEMPORARY))
    if (path.startswith("/") and not own) or ".." in path.split("/"):
        return (
            f"Only {cwd}, {_TEMPORARY} and the mounts of this run exist, and only the "
            "first two can be written: use a relative path."
        )
    if number == errno.ENOENT:
        return (
            "There is no such file; `os.listdir()` shows what is in the working directory. Files "
            "of the host have to be passed to the run."
        )
    return f"This path cannot be written; {cwd} can."


def _raised_in(error, filename):
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename.rpartition("/")[2] == filename:
            return True
        trace = trace.tb_next
    return False


def _runtime(error, _cwd):
    message = _message(error)
    if "can't start new thread" in message:
        return _NO_THREAD
    if message.endswith(NO_OTHER):
        return _NO_TURNS
    if "asyncio.run() cannot be called from a running event loop" in message:
        return (
            "An event loop is already running: use `await` at top level instead of `asyncio.run()`."
        )
    return None


def _not_implemented(error, _cwd):
    return _NO_THREAD if "multiprocessing" in _message(error) else None


def _end_of_file(error, _cwd):
    if "EOF when reading a line" in _message(error):
        return "There is no input: pass standard input to the run, or put the value in the code."
    return None


def _value(error, _cwd):
    message = _message(error)
    if message.startswith("unknown file extension: ") and _raised_in(error, "Image.py"):
        return _of_library("PIL", _NO_IMAGE_FORMAT)
    if isinstance(error, UnicodeEncodeError) and _raised_in(error, "ImageFont.py"):
        return _of_library("PIL", _NO_FONTS)
    return None


def _database(error, _cwd):
    is_sqlite = type_module(type(error)) == "sqlite3"
    return _LOCKED if is_sqlite and "database is locked" in _message(error) else None


def is_nesting(error):
    """Whether the parser rejected deeply nested source, independent of memory."""
    return _message(error).startswith("Parser stack overflowed")


def _memory(error, _cwd):
    if is_nesting(error):
        return _recursion(error, _cwd)
    return (
        "The memory limit of this run was reached: work on less at a time, use smaller types, "
        "or ask for a larger limit."
    )


def _recursion(_error, _cwd):
    return "The recursion is endless or too deep: check its base case, or use a loop."


_RULES = (
    (ModuleNotFoundError, _missing_module),
    (ImportError, _refused_import),
    (AttributeError, _attribute),
    (NotImplementedError, _not_implemented),
    (RecursionError, _recursion),
    (RuntimeError, _runtime),
    (EOFError, _end_of_file),
    (MemoryError, _memory),
    (OSError, _os_error),
    (ValueError, _value),
    (Exception, _database),
)
