"""A toolset for pydantic-ai: `Agent(..., toolsets=[BelljarToolset()])`."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import BinaryContent, FunctionToolset, ToolReturn

import belljar

from ..convert import pictures
from ..report import describe
from ._common import aruntime_or_default, with_usual


class BelljarToolset(FunctionToolset[Any]):
    """Provides the tool `run_python`, whose variables and files are kept between calls.

    `session_options` are those of `Runtime.session`; `timeout` applies to each call, in seconds.
    """

    def __init__(
        self,
        *,
        timeout: float | None = 30.0,
        runtime: belljar.Runtime | None = None,
        id: str | None = None,
        **session_options: Any,
    ) -> None:
        super().__init__(id=id)
        self._runtime = runtime
        self._session_options = with_usual(session_options, timeout=timeout)
        self._timeout = self._session_options.pop("timeout")
        self._session: belljar.Session | None = None
        # Calls in one reply of a model are run in order.
        self.add_function(self.run_python, sequential=True)

    async def run_python(self, code: str) -> ToolReturn:
        """Runs Python code and returns what it printed, its files and its figures, or its error.

        Variables, imports and files stay for the next call. Expressions on a line of their own
        are printed. numpy, pandas, scipy, matplotlib and scikit-learn are there; the network is
        not.

        Args:
            code: The Python code to run.
        """
        if self._session is None:
            runtime = await aruntime_or_default(self._runtime)
            self._session = await runtime.asession(**self._session_options)
        run = await self._session.arun(code, timeout=self._timeout)
        document = run.outcome.to_dict()
        shown = await asyncio.to_thread(pictures, document, run.__getitem__)
        return ToolReturn(
            return_value=describe(document),
            content=[
                BinaryContent.from_data_uri(f"data:{media_type};base64,{data}")
                for media_type, data in shown
            ],
            metadata={"outcome": document},
        )

    def close(self) -> None:
        """Ends the session."""
        if self._session is not None:
            self._session.close()
            self._session = None
