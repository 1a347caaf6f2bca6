"""What an agent tells while it works, and what it remembers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import belljar


@dataclass
class ThoughtEvent:
    """What the model says before its code."""

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
    """What the code did, as the model is told, and the run itself."""

    observation: str
    tool: str = ""
    type: str = "observation"
    run: belljar.Run | None = field(default=None, repr=False)


@dataclass
class TokenEvent:
    """A piece of what the model writes, as it comes."""

    token: str
    type: str = "token"


@dataclass
class FinalAnswerEvent:
    """The answer, with which the task ends."""

    answer: str
    type: str = "final_answer"


@dataclass
class ErrorEvent:
    """Why the task ends without an answer."""

    error: str
    type: str = "error"


StepEvent = (
    ThoughtEvent | ActionEvent | ObservationEvent | TokenEvent | FinalAnswerEvent | ErrorEvent
)


@dataclass
class Step:
    """One piece of code and what it did."""

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
