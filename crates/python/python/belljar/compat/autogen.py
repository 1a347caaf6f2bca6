"""A code executor for AutoGen: `CodeExecutorAgent(code_executor=BelljarCodeExecutor())`."""

from __future__ import annotations

import asyncio
from typing import Any

from autogen_core import CancellationToken, Component
from autogen_core.code_executor import CodeBlock, CodeExecutor, CodeResult
from pydantic import BaseModel

import belljar

from ..convert import exit_code
from ..report import error_text
from ._common import aruntime_or_default, with_usual

_PYTHON = ("python", "py", "python3")


class BelljarCodeExecutorConfig(BaseModel):
    """The serializable settings of an executor."""

    timeout: float | None = 60.0
    session_options: dict[str, Any] = {}


class BelljarCodeExecutor(CodeExecutor, Component[BelljarCodeExecutorConfig]):
    """Runs blocks of Python in one session, from `start` to `stop`.

    `session_options` are those of `Runtime.session`.
    """

    component_config_schema = BelljarCodeExecutorConfig
    component_provider_override = "belljar.compat.autogen.BelljarCodeExecutor"

    def __init__(
        self,
        *,
        timeout: float | None = 60.0,
        runtime: belljar.Runtime | None = None,
        **session_options: Any,
    ) -> None:
        self._session_options = with_usual(session_options, timeout=timeout)
        self._timeout = self._session_options.pop("timeout")
        self._runtime = runtime
        self._session: belljar.Session | None = None

    async def execute_code_blocks(
        self, code_blocks: list[CodeBlock], cancellation_token: CancellationToken
    ) -> CodeResult:
        """Runs the blocks in order, until one fails."""
        session = await self._current_session()
        output, status = "", 0
        for block in code_blocks:
            if block.language.lower() not in _PYTHON:
                return CodeResult(1, f"{output}unsupported language: {block.language}\n")
            run = asyncio.ensure_future(session.arun(block.code, timeout=self._timeout))
            cancellation_token.link_future(run)
            document = (await run).outcome.to_dict()
            output += document["stdout"] + error_text(document)
            if status := exit_code(document):
                break
        return CodeResult(status, output)

    async def start(self) -> None:
        await self._current_session()

    async def stop(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    async def restart(self) -> None:
        await self.stop()
        await self.start()

    async def _current_session(self) -> belljar.Session:
        if self._session is None:
            runtime = await aruntime_or_default(self._runtime)
            self._session = await runtime.asession(**self._session_options)
        return self._session

    def _to_config(self) -> BelljarCodeExecutorConfig:
        return BelljarCodeExecutorConfig(
            timeout=self._timeout, session_options=self._session_options
        )

    @classmethod
    def _from_config(cls, config: BelljarCodeExecutorConfig) -> BelljarCodeExecutor:
        return cls(timeout=config.timeout, **config.session_options)
