"""The client of Kubernetes' agent-sandbox without a cluster: `BelljarSandboxClient()`."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterator, Mapping
from datetime import datetime, timezone
from pathlib import PurePosixPath
from types import TracebackType
from typing import Any, BinaryIO

from k8s_agent_sandbox.exceptions import (
    SandboxNotFoundError,
    SandboxRequestError,
    SandboxWarmPoolNotFoundError,
)
from k8s_agent_sandbox.models import ExecutionResult, FileEntry
from kubernetes.client import ApiException

import belljar

from ..convert import exit_code
from ..report import error_text
from ._common import runtime_or_default
from ._programs import ROOT, inside, program_of

_NO_PODS = "there are no pods: volume claims, labels and annotations of pods have no meaning"


class BelljarSandboxClient:
    """Has the methods of `k8s_agent_sandbox.SandboxClient`. A claim is a session.

    `images` names the image of each warm pool; without it, any pool may be named.
    `session_options` are those of `Runtime.session`. Leaving the context ends the sandboxes without
    a `claim_name`; the others end with the runtime.
    """

    def __init__(
        self,
        *,
        runtime: belljar.Runtime | None = None,
        images: Mapping[str, str] | None = None,
        **session_options: Any,
    ) -> None:
        self._runtime = runtime
        self._images = images
        self._session_options = session_options
        self._sandboxes: dict[tuple[str, str], BelljarSandbox] = {}
        self._labels: dict[tuple[str, str], dict[str, str]] = {}
        self._named: set[tuple[str, str]] = set()

    def __enter__(self) -> BelljarSandboxClient:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with contextlib.ExitStack() as stack:
            for namespace, claim in list(self._sandboxes):
                if (namespace, claim) not in self._named:
                    stack.callback(self.delete_sandbox, claim, namespace)

    def create_sandbox(
        self,
        warmpool: str,
        namespace: str = "default",
        sandbox_ready_timeout: int = 180,
        labels: dict[str, str] | None = None,
        *,
        claim_name: str | None = None,
        adopt_existing: bool = False,
        shutdown_after_seconds: int | None = None,
        volume_claim_templates: list[dict[str, Any]] | None = None,
        pod_labels: dict[str, str] | None = None,
        pod_annotations: dict[str, str] | None = None,
        env: dict[str, str] | None = None,
    ) -> BelljarSandbox:
        """Opens a session with an empty workspace."""
        if not warmpool:
            raise ValueError("Warmpool name cannot be empty.")
        if volume_claim_templates or pod_labels or pod_annotations:
            raise NotImplementedError(_NO_PODS)
        if adopt_existing and claim_name is None:
            raise ValueError("adopt_existing requires an explicit claim_name.")
        key = (namespace, claim_name or f"sandbox-claim-{uuid.uuid4().hex[:8]}")
        if key in self._claims():
            if adopt_existing:
                return self._sandboxes[key]
            raise ApiException(status=409, reason="Conflict")
        options = dict(self._session_options)
        if self._images is not None:
            if warmpool not in self._images:
                raise SandboxWarmPoolNotFoundError(f"there is no image for {warmpool!r}")
            options["image"] = self._images[warmpool]
        if shutdown_after_seconds is not None:
            options["lease"] = (shutdown_after_seconds, "close")
        options["env"] = {**options.get("env", {}), **(env or {})}
        runtime = runtime_or_default(self._runtime)
        sandbox = BelljarSandbox(runtime, runtime.session(**options), key[1], namespace)
        self._sandboxes[key], self._labels[key] = sandbox, labels or {}
        if claim_name is not None:
            self._named.add(key)
        return sandbox

    def get_sandbox(
        self, claim_name: str, namespace: str = "default", resolve_timeout: int = 30
    ) -> BelljarSandbox:
        sandbox = self._claims().get((namespace, claim_name))
        if sandbox is None:
            raise SandboxNotFoundError(f"there is no sandbox claim {claim_name!r} in {namespace!r}")
        return sandbox._connected()

    def list_active_sandboxes(self) -> list[tuple[str, str]]:
        return [key for key, sandbox in self._claims().items() if sandbox.is_active]

    def list_all_sandboxes(
        self, namespace: str = "default", label_selector: str | None = None
    ) -> list[str]:
        wanted = [term.partition("=") for term in (label_selector or "").split(",") if term]
        if not all(equals and not name.endswith("!") for name, equals, _ in wanted):
            raise NotImplementedError("a selector is name=value, several joined by commas")
        return [
            claim
            for where, claim in self._claims()
            if where == namespace
            and all(
                self._labels[where, claim].get(name.strip()) == value.strip(" =")
                for name, _, value in wanted
            )
        ]

    def delete_sandbox(self, claim_name: str, namespace: str = "default") -> None:
        sandbox = self._sandboxes.pop((namespace, claim_name), None)
        self._named.discard((namespace, claim_name))
        self._labels.pop((namespace, claim_name), None)
        if sandbox is not None:
            sandbox.terminate()

    def delete_all(self) -> None:
        for namespace, claim in list(self._sandboxes):
            self.delete_sandbox(claim, namespace)

    def _claims(self) -> dict[tuple[str, str], BelljarSandbox]:
        """The sandboxes that have not ended."""
        open_ids = {info.id for info in runtime_or_default(self._runtime).sessions()}
        for key, sandbox in list(self._sandboxes.items()):
            if sandbox.sandbox_id not in open_ids:
                del self._sandboxes[key], self._labels[key]
                self._named.discard(key)
        return self._sandboxes


class BelljarSandbox:
    """Has the methods of `k8s_agent_sandbox.sandbox.Sandbox`."""

    def __init__(
        self, runtime: belljar.Runtime, session: belljar.Session, claim_name: str, namespace: str
    ) -> None:
        self._runtime = runtime
        self.sandbox_id = session.id
        self.claim_name: str | None = claim_name
        self.namespace = namespace
        self._session = session
        self._is_closed = False

    @property
    def commands(self) -> Commands | None:
        return None if self._is_closed else Commands(self._session)

    @property
    def files(self) -> Files | None:
        return None if self._is_closed else Files(self._session)

    @property
    def is_active(self) -> bool:
        return not self._is_closed

    def status(self) -> tuple[str, str]:
        # Not by the session's own methods, which wait while it runs code.
        if all(info.id != self.sandbox_id for info in self._runtime.sessions()):
            return "SandboxNotFound", "the session has ended"
        return "SandboxReady", str(self._session.info.status)

    def close_connection(self) -> None:
        """Disables this object until `get_sandbox`. The session stays."""
        self._is_closed = True

    def terminate(self) -> None:
        self.close_connection()
        self._session.close()
        self.claim_name = None

    def _connected(self) -> BelljarSandbox:
        self._is_closed = False
        return self


class Commands:
    """Python programs of a sandbox; there is no shell."""

    def __init__(self, session: belljar.Session) -> None:
        self._session = session

    def run(
        self,
        command: str,
        timeout: int = 60,
        command_timeout: float | None = None,
        *,
        env: dict[str, str] | None = None,
        cwd: str | None = None,
    ) -> ExecutionResult:
        """Runs a Python program, for at most `command_timeout` or else `timeout` seconds."""
        try:
            program = program_of(command, str(PurePosixPath(ROOT, cwd or "")))
        except ValueError as error:
            return ExecutionResult(stderr=f"{error}\n", exit_code=127)
        limit = timeout if command_timeout is None else command_timeout
        try:
            run = self._session.run(program.code(), cwd=program.cwd, run_env=env, timeout=limit)
        except belljar.RefusedError as error:
            return ExecutionResult(stderr=f"{error}\n", exit_code=126)
        except belljar.SessionError as error:
            raise SandboxRequestError(str(error), 410) from error
        document = run.outcome.to_dict()
        return ExecutionResult(
            stdout=document["stdout"],
            stderr=error_text(document),
            exit_code=exit_code(document),
            timed_out=run.error is not None and run.error.kind == "timeout",
        )


class Files:
    """Files of a sandbox, by paths that are relative to its workspace or below it."""

    def __init__(self, session: belljar.Session) -> None:
        self._files = session.files

    def write(
        self,
        path: str,
        content: bytes | str | BinaryIO,
        timeout: int = 60,
        allow_unsafe_paths: bool = False,
    ) -> None:
        place = PurePosixPath(_path(path))
        if not isinstance(content, (bytes, str)):
            content = content.read()
        with _reported():
            if str(place.parent) != ".":
                self._files.make_dir(str(place.parent))
            self._files.write(str(place), content)

    def read(self, path: str, timeout: int = 60, allow_unsafe_paths: bool = False) -> bytes:
        with _reported():
            return self._files.read(_path(path))

    def read_to(
        self,
        path: str,
        destination: Any,
        timeout: int = 60,
        allow_unsafe_paths: bool = False,
        max_bytes: int | None = None,
    ) -> int:
        content = self.read(path)
        if max_bytes is not None and len(content) > max_bytes:
            destination.write(content[:max_bytes])
            raise RuntimeError(f"{path} has more than {max_bytes} bytes")
        destination.write(content)
        return len(content)

    def list(self, path: str, timeout: int = 60) -> list[FileEntry]:
        with _reported():
            entries = self._files.list(_path(path))
        return [
            FileEntry(
                name=PurePosixPath(entry.path).name,
                size=entry.size,
                type="directory" if entry.kind == "directory" else "file",
                modified=datetime.fromtimestamp(entry.modified or 0, timezone.utc),
            )
            for entry in entries
        ]

    def exists(self, path: str, timeout: int = 60) -> bool:
        place = _path(path)
        with _reported():
            try:
                return place == "" or self._files.stat(place) is not None
            except belljar.NoSuchFileError:
                return False

    def delete(self, path: str, recursive: bool = False, timeout: int = 60) -> None:
        place = _path(path)
        if not recursive and self.exists(path) and self._is_full(place):
            raise SandboxRequestError(f"{path} is a directory with files", 409)
        with _reported():
            self._files.remove(place)

    def _is_full(self, place: str) -> bool:
        with _reported():
            is_directory = place == "" or self._files.stat(place).kind == "directory"
            return is_directory and bool(self._files.list(place))


def _path(path: str) -> str:
    return inside(str(PurePosixPath(ROOT, path)))


@contextlib.contextmanager
def _reported() -> Iterator[None]:
    """Raises the errors that the package raises."""
    try:
        yield
    except belljar.NoSuchFileError as error:
        raise SandboxRequestError(str(error), 404) from error
    except belljar.BelljarError as error:
        raise SandboxRequestError(str(error), 400) from error
