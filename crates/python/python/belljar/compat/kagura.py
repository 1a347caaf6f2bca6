"""Kagura's code execution, run by belljar: `CodeExecutor`, `execute_code`, `CodeExecutionAgent`.

    from belljar.compat.kagura import CodeExecutor

    result = await CodeExecutor(timeout=10.0).execute("result = sum(range(1, 1001))")
    print(result.result)  # 500500

If Kagura is installed, `install()` replaces its classes with these. Kagura is not available on
PyPI; without it, `install()` creates the modules `kagura.core.executor` and `kagura.agents` from
this one.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from ..agent.code import extract_code
from ..agent.models import Chat, default_chat, reply_of
from ._common import Installer, aruntime_or_default, result_of, runtime_or_default, with_usual

if TYPE_CHECKING:
    import belljar
    from belljar._types import Rules

__all__ = [
    "CodeExecutionAgent",
    "CodeExecutor",
    "CodeResult",
    "ExecutionResult",
    "SecurityError",
    "execute_code",
    "install",
    "uninstall",
]

# The modules that Kagura's code and its tutorial allow.
ALLOWED_IMPORTS = frozenset(
    "math datetime json itertools functools collections re random statistics decimal string "
    "typing dataclasses enum fractions time operator copy".split()
)
# `__import__` is not listed: the imported module is checked when it is called.
FORBIDDEN_NAMES = frozenset(
    "exec eval compile open input file quit exit help license copyright credits globals locals "
    "vars dir breakpoint".split()
)
FORBIDDEN_ATTRIBUTES = frozenset("__builtins__ __globals__ __code__ __dict__".split())

_SYNTAX_ERRORS = ("SyntaxError: ", "IndentationError: ", "TabError: ")


def _kagura_security_error() -> type[Exception]:
    try:
        from kagura.core.executor import SecurityError as Theirs
    except ImportError:
        return Exception
    return Theirs


class SecurityError(_kagura_security_error()):  # type: ignore[misc]
    """The policy rejects the code. It was not run."""


class _Model:
    """Methods of pydantic models, which results are in Kagura."""

    def model_dump(self) -> dict[str, Any]:
        return asdict(self)  # type: ignore[call-overload]

    def model_dump_json(self) -> str:
        return json.dumps(self.model_dump(), default=repr, ensure_ascii=False)


@dataclass
class ExecutionResult(_Model):
    """The result of code. `result` is the value of the variable `result`, with its type: integer
    keys are kept.
    """

    success: bool
    result: Any = None
    error: str | None = None
    stdout: str = ""
    stderr: str = ""
    execution_time: float = 0.0
    code: str = ""


@dataclass
class CodeResult(_Model):
    """The result of a task: the model's last code, and its outcome."""

    task: str
    code: str
    success: bool
    result: Any = None
    error: str | None = None
    stdout: str = ""
    stderr: str = ""
    execution_time: float = 0.0


class CodeExecutor:
    """Runs code that may import only a few modules and cannot call functions that reach outside.

    The lists are a convenience: isolation is provided by the sandbox, independent of them.
    """

    def __init__(
        self,
        timeout: float = 30.0,
        allowed_imports: set[str] | None = None,
        memory_limit_mb: int | None = None,
        *,
        max_output_size: int | None = None,
        runtime: belljar.Runtime | None = None,
        **run_options: Any,
    ) -> None:
        """`max_output_size` is in characters; `run_options` are those of `Runtime.run`."""
        self.timeout = timeout
        self.allowed_imports = set(ALLOWED_IMPORTS if allowed_imports is None else allowed_imports)
        self.memory_limit_mb = memory_limit_mb
        self.max_output_size = max_output_size
        self.runtime = runtime
        self.run_options = run_options

    @property
    def policy(self) -> Rules:
        return {
            "imports": sorted(self.allowed_imports),
            "forbidden_names": sorted(FORBIDDEN_NAMES),
            "forbidden_attributes": sorted(FORBIDDEN_ATTRIBUTES),
        }

    def validate_code(self, code: str) -> None:
        """Raises `SecurityError` or `SyntaxError` for code that cannot be run."""
        check = runtime_or_default(self.runtime).check(code, policy=self.policy)
        messages = [violation.message for violation in check.violations]
        if len(messages) == 1 and messages[0].startswith(_SYNTAX_ERRORS):
            raise SyntaxError(messages[0].partition(": ")[2])
        if messages:
            raise SecurityError("; ".join(messages))

    async def execute(self, code: str) -> ExecutionResult:
        """Runs the code. Errors are returned, not raised."""
        options = with_usual(self.run_options, timeout=self.timeout, memory_mb=self.memory_limit_mb)
        runtime = await aruntime_or_default(self.runtime)
        run = await runtime.arun(
            code,
            policy=self.policy,
            **options,
        )
        outcome = run.outcome
        document = outcome.to_dict()
        stdout, stderr = document["stdout"], document["stderr"]
        if self.max_output_size is not None:
            stdout, stderr = stdout[: self.max_output_size], stderr[: self.max_output_size]
        return ExecutionResult(
            success=document["success"],
            result=result_of(outcome) if document["success"] else None,
            error=_error(document, options["timeout"]),
            stdout=stdout,
            stderr=stderr,
            execution_time=document["usage"]["wall_ms"] / 1000,
            code=code,
        )


class CodeExecutionAgent:
    """Lets a model write code for a task, runs it, and returns errors to the model until it works.

    `chat` is any function from messages to text; without it, `model` is called with the client for
    its name and the keys in the environment.
    """

    def __init__(
        self,
        model: str = "gpt-4o",
        temperature: float = 0.3,
        timeout: float = 30.0,
        max_retries: int = 3,
        *,
        chat: Chat | None = None,
        executor: CodeExecutor | None = None,
    ) -> None:
        self.model = model
        self.temperature = temperature
        self.max_retries = max_retries
        self.executor = executor or CodeExecutor(timeout=timeout)
        self._chat = chat or default_chat(model, temperature=temperature)

    async def execute(self, task: str) -> CodeResult:
        """One attempt."""
        code = await self._write(task)
        done = await self.executor.execute(code)
        return CodeResult(task=task, **{**asdict(done), "code": code})

    async def execute_with_retry(self, task: str) -> CodeResult:
        """Makes up to `max_retries` attempts, passing each the error of the one before."""
        prompt = task
        for attempt in range(1, max(self.max_retries, 1) + 1):
            done = await self.execute(prompt)
            if done.success:
                break
            prompt = (
                f"{task}\n\nPrevious attempt {attempt} failed with error: {done.error}\n\n"
                "Please fix the code to address this error."
            )
        done.task = task
        return done

    async def _write(self, task: str) -> str:
        reply = await reply_of(
            self._chat,
            [
                {"role": "system", "content": self._instructions()},
                {"role": "user", "content": task},
            ],
        )
        return extract_code(reply) or str(reply)

    def _instructions(self) -> str:
        modules = ", ".join(sorted(self.executor.allowed_imports))
        return (
            "Write a Python program for the user's task and answer with nothing but the program. "
            "Store its answer in a variable named result. "
            f"Only these modules can be imported: {modules}. "
            "Files, the network, exec, eval and open are not available."
        )


async def execute_code(
    task: str, max_retries: int = 3, *, agent: CodeExecutionAgent | None = None
) -> dict[str, Any]:
    """Solves a task: returns `code`, `success`, `result`, `error`."""
    agent = agent or CodeExecutionAgent(max_retries=max_retries)
    done = await agent.execute_with_retry(task)
    return {key: getattr(done, key) for key in ("code", "success", "result", "error")}


def _error(document: dict[str, Any], timeout: float) -> str | None:
    if (document["error_detail"] or {}).get("kind") == "timeout":
        return f"TimeoutError: Execution exceeded {timeout} seconds (Execution timeout)"
    return document["error"]


_EXECUTOR = ("CodeExecutor", "ExecutionResult", "SecurityError")
_AGENTS = ("CodeExecutionAgent", "CodeResult", "execute_code")
_INSTALLER = Installer(
    (
        "kagura.core.executor",
        "kagura.core",
        "kagura.agents.code_execution",
        "kagura.agents",
        "kagura",
    )
)


def install() -> None:
    """Replaces Kagura's names in all of its modules, or creates the modules."""
    if "kagura" not in sys.modules and importlib.util.find_spec("kagura") is None:
        _make_modules()
    else:
        _INSTALLER.install({name: globals()[name] for name in (*_EXECUTOR, *_AGENTS)})


def uninstall() -> None:
    """Restores what `install` replaced."""
    if getattr(sys.modules.get("kagura"), "__file__", None) is None:
        for name in _MADE:
            sys.modules.pop(name, None)
    _INSTALLER.uninstall()


_MADE = {
    "kagura": (),
    "kagura.core": (),
    "kagura.core.executor": _EXECUTOR,
    "kagura.agents": _AGENTS,
    "kagura.agents.code_execution": _AGENTS,
}


def _make_modules() -> None:
    for path, names in _MADE.items():
        module = types.ModuleType(path, "Made by belljar.compat.kagura: code execution only.")
        module.__path__ = []  # type: ignore[attr-defined]
        for name in names:
            setattr(module, name, globals()[name])
        sys.modules[path] = module
        parent, _, child = path.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)
