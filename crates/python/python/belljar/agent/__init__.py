"""An agent that answers by writing and running Python.

    from belljar.agent import Agent, OpenAIChat

    agent = Agent(OpenAIChat(model="gpt-4o-mini"))
    print(agent.run("What is the sum of squares of all primes below 50?"))

The model is any function from messages to text. Its code runs in one session, so each step can use
the results of earlier ones. Errors are returned to the model with their line and a hint.
"""

from .best import Best, abest_of, best_of, score
from .code import extract_code
from .events import (
    ActionEvent,
    ErrorEvent,
    FinalAnswerEvent,
    Memory,
    ObservationEvent,
    Step,
    StepEvent,
    ThoughtEvent,
    TokenEvent,
)
from .loop import Agent, Limits, Result
from .models import AnthropicChat, Chat, OpenAIChat, Reply, default_chat

__all__ = [
    "ActionEvent",
    "Agent",
    "AnthropicChat",
    "Best",
    "Chat",
    "ErrorEvent",
    "FinalAnswerEvent",
    "Limits",
    "Memory",
    "ObservationEvent",
    "OpenAIChat",
    "Reply",
    "Result",
    "Step",
    "StepEvent",
    "ThoughtEvent",
    "TokenEvent",
    "abest_of",
    "best_of",
    "default_chat",
    "extract_code",
    "score",
]
