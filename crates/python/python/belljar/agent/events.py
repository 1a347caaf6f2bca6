"""The events and the memory of an agent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import belljar


@dataclass
class ThoughtEvent:
    """The model's text before its code."""

    thought: str
    type: str = "thought"


@dataclass
class ActionEvent:
    """Code that is about to run."""

    tool: str
    tool_input: str = ""
    type: str = "action"


@dataclass
class ObservationEvent:
    """The result of the code as shown to the model, and the run itself."""

    observation: str
    tool: str = ""
    type: str = "observation"
    run: belljar.Run | None = field(default=None, repr=False)


@dataclass
class TokenEvent:
    """A part of the model's reply, streamed."""

    token: str
    type: str = "token"


@dataclass
class FinalAnswerEvent:
    """The answer, which ends the task."""

    answer: str
    type: str = "final_answer"


@dataclass
class ErrorEvent:
    """The reason why the task ended without an answer."""

    error: str
    type: str = "error"


StepEvent = (
    ThoughtEvent | ActionEvent | ObservationEvent | TokenEvent | FinalAnswerEvent | ErrorEvent
)


@dataclass
class Step:
    """A piece of code and its result."""

    thought: str
    action: str
    action_input: str
    observation: str
    run: belljar.Run = field(repr=False)

    @property
    def outcome(self) -> belljar.Outcome:
        return self.run.outcome


class Memory:
    """The steps of all tasks of an agent, in order."""

    def __init__(self) -> None:
        self._steps: list[Step] = []

    @property
    def steps(self) -> list[Step]:
        return list(self._steps)

    def add_step(self, step: Step) -> None:
        self._steps.append(step)

    def clear(self) -> None:
        self._steps.clear()

    def __len__(self) -> int:
        return len(self._steps)
