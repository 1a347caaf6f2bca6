"""The agent's loop, with a scripted model and the real engine."""

import asyncio
import time

import pytest

import belljar
from belljar import agent as agents
from belljar.agent import (
    ActionEvent,
    Agent,
    ErrorEvent,
    FinalAnswerEvent,
    Limits,
    ObservationEvent,
    Reply,
    ThoughtEvent,
    TokenEvent,
    abest_of,
    best_of,
    extract_code,
)
from scripted import code


def chat_of(*replies):
    """A model that gives these replies in order, and records its requests."""
    asked = []
    left = iter(replies)

    async def chat(messages):
        asked.append([dict(message) for message in messages])
        return next(left)

    chat.asked = asked
    return chat


def is_soon(holds, seconds=10):
    """Whether the condition holds within some seconds."""
    end = time.monotonic() + seconds
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)
    return holds()


def test_task_code_error_code_answer():
    chat = chat_of(
        code("total = 40\nprint(totl + 2)", "I add."),
        code("print(total + 2)", "A typing error."),
        "It is 42.",
    )
    events = []
    with Agent(chat) as agent:
        result = agent.run("Add.", on_event=events.append)
    assert (result.answer, result.success, str(result)) == ("It is 42.", True, "It is 42.")
    assert [type(event) for event in events] == [
        ThoughtEvent,
        ActionEvent,
        ObservationEvent,
        ThoughtEvent,
        ActionEvent,
        ObservationEvent,
        FinalAnswerEvent,
    ]
    assert events[0].thought == "I add."
    assert events[1].tool_input == "total = 40\nprint(totl + 2)\n"
    told = chat.asked[1][-1]
    assert told["role"] == "user"
    assert told["content"].startswith("Output:\nNameError: name 'totl' is not defined")
    assert 'File "<string>", line 2' in told["content"]
    # The effects of the failed code before its error are kept.
    assert events[5].observation == "42"
    first, second = agent.memory.steps
    assert (first.thought, first.action) == ("I add.", "python")
    assert first.outcome.error.line == 2
    assert second.observation == "42"
    assert result.steps == (first, second)


def test_hints_reach_the_model():
    chat = chat_of(code("open('/etc/passwd')"), "No.")
    with Agent(chat) as agent:
        agent.run("Read it.")
    assert "hint: Only /workspace" in chat.asked[1][-1]["content"]


def test_a_plain_function_is_a_model_too():
    with Agent(lambda messages: f"You said: {messages[-1]['content']}") as agent:
        assert str(agent.run("hello")) == "You said: hello"


def test_the_conversation_and_the_session_go_on():
    chat = chat_of(code("x = 1"), "Done.", code("print(x + 1)"), "2")
    with Agent(chat) as agent:
        agent.run("Set x.")
        result = agent.run("And now?")
    assert result.steps[0].observation == "2"
    roles = [message["role"] for message in chat.asked[2]]
    assert roles == [
        "system",
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]
    assert len(agent.memory) == 2


def test_reset_begins_anew():
    chat = chat_of(code("x = 1"), "Done.", code("print(x)"), "Gone.")

    async def main():
        async with Agent(chat) as agent:
            await agent.arun("Set x.")
            await agent.areset()
            assert len(agent.memory) == 0
            result = await agent.arun("And now?")
            assert result.steps[0].outcome.error.type == "NameError"
        assert len(chat.asked[2]) == 2

    asyncio.run(main())


def test_failed_code_can_be_taken_back():
    chat = chat_of(
        code("x = 1\nopen('kept.txt', 'w').close()"),
        code("x = 2\nopen('half.txt', 'w').close()\n1 / 0"),
        code("import os\nprint(x, os.listdir())"),
        "Done.",
    )
    with Agent(chat, rewind_failed=True) as agent:
        result = agent.run("Go.")
    assert "variables and files are as before it" in chat.asked[2][-1]["content"]
    assert result.steps[2].observation == "1 ['kept.txt']"


def test_a_crash_is_told_and_survived():
    chat = chat_of(code("x = 1"), code("import os\nos._exit(1)"), code("print(x)"), "1")
    with Agent(chat) as agent:
        result = agent.run("Go.")
    assert "in the state that it had before this run" in result.steps[1].observation
    assert result.steps[2].observation == "1"


def test_limit_of_tries():
    chat = chat_of(*[code("1 / 0")] * 3)
    events = []
    with Agent(chat, limits=Limits(tries=2)) as agent:
        result = agent.run("Go.", on_event=events.append)
    assert not result.success
    expected = "no answer after 2 tries; the last error was ZeroDivisionError: division by zero"
    assert result.error == str(result) == expected
    assert events[-1] == ErrorEvent(expected)
    assert "No more code can be run" in chat.asked[2][-1]["content"]
    chat = chat_of(code("print(1)"), "Good enough: 1")
    with Agent(chat, limits=Limits(tries=1)) as agent:
        assert agent.run("Go.").answer == "Good enough: 1"


def test_limits_of_runs():
    chat = chat_of(code("while True: pass"), "slow", code("while True: pass"), "slow")
    with Agent(chat, run_limits=belljar.Limits(timeout=0.2)) as agent:
        assert "after 0.2 seconds" in agent.run("Go.").steps[0].observation
    limits = belljar.Limits(timeout=None)
    with Agent(chat, run_limits=limits, limits=Limits(seconds=1)) as agent:
        result = agent.run("Go.")
        assert result.error == "no answer within 1 seconds"
        assert result.seconds < 3
    with pytest.raises(TypeError, match="Agent has 'timeout' twice"):
        Agent(chat, run_limits=limits, timeout=1)


def test_limit_of_time():
    async def slow(messages):
        await asyncio.sleep(30)

    with Agent(slow, limits=Limits(seconds=0.2)) as agent:
        assert agent.run("Go.").error == "no answer within 0.2 seconds"
    chat = chat_of(code("while True: pass"), "never")
    with Agent(chat, limits=Limits(seconds=1)) as agent:
        result = agent.run("Go.")
    assert result.error.startswith("no answer within 1 seconds; the last error was Code execution")
    assert result.seconds < 3


def test_time_in_the_session_of_a_caller():
    with belljar.Runtime() as runtime, runtime.session(timeout=0.2) as session:
        # Its runs have its own limit, also where the task may take longer than any run.
        for seconds in (30, 7200):
            chat = chat_of(code("while True: pass"), "slow")
            agent = Agent(chat, session=session, limits=Limits(seconds=seconds))
            assert "after 0.2 seconds" in agent.run("Go.").steps[0].observation
    with belljar.Runtime() as runtime, runtime.session(timeout=None) as session:
        chat = chat_of(code("x = 1\nwhile True: pass"))
        limits = Limits(seconds=0.5)
        agent = Agent(chat, session=session, limits=limits, rewind_failed=True)
        assert agent.run("Go.").error == "no answer within 0.5 seconds"
        assert session.run("result = 'x' in globals()").result is False


def test_limit_of_tokens():
    chat = chat_of(Reply(code("print(1)"), tokens=600), Reply(code("print(2)"), tokens=600), "x")
    with Agent(chat, limits=Limits(tokens=1000)) as agent:
        result = agent.run("Go.")
    assert result.tokens == 1200
    assert result.error == "no answer within 1000 tokens"
    # Estimated if the model does not report it.
    with Agent(lambda messages: "word " * 300, system_prompt="") as agent:
        assert 300 < agent.run("").tokens < 1000


def test_a_model_that_fails_leaves_the_conversation_as_it_was():
    broken = iter([code("x = 1"), RuntimeError("no route"), "Here."])

    async def chat(messages):
        chat.asked = len(messages)
        reply = next(broken)
        if isinstance(reply, Exception):
            raise reply
        return reply

    with Agent(chat) as agent:
        with pytest.raises(RuntimeError, match="no route"):
            agent.run("First.")
        assert agent.run("Second.").answer == "Here."
    assert chat.asked == 2


def test_run_within_an_event_loop_says_what_to_do():
    async def main():
        with Agent(chat_of("x")) as agent, pytest.raises(RuntimeError, match=r"await agent\.arun"):
            agent.run("Go.")

    asyncio.run(main())


def test_it_can_be_closed_within_an_event_loop():
    agent = Agent(chat_of(code("x = 1"), "Done."))
    agent.run("Go.")

    async def main():
        agent.close()

    asyncio.run(main())
    assert agent.session is None


def test_a_session_that_is_given_stays_open():
    with belljar.default_runtime().session() as session:
        session.run("x = 1")
        with Agent(chat_of(code("x += 1"), "Done."), session=session) as agent:
            agent.run("Go.")
        assert session.get("x") == 2


def test_options_of_the_session_and_of_its_runs():
    def price(thing: str) -> float:
        """The price of a thing."""
        return 3.0

    chat = chat_of(
        code("import tools\nprint(tools.price('tea'), open('a.txt').read())\nwhile True: pass"), "3"
    )
    with Agent(chat, tools=[price], files={"a.txt": "text"}, run_options={"timeout": 0.3}) as agent:
        [step] = agent.run("Go.").steps
    assert step.outcome.stdout == "3.0 text\n"
    told = chat.asked[0][0]["content"]
    assert "Files in the current directory: a.txt." in told
    assert "- tools.price(thing: string): The price of a thing.\n" in told
    assert step.outcome.error.kind == "timeout"


def test_steps_of_a_stream():
    async def main():
        async with Agent(chat_of(code("print(1)"), "One.")) as agent:
            return [event.type async for event in agent.stream_steps("Count.")]

    assert asyncio.run(main()) == ["action", "observation", "final_answer"]


class Piecewise:
    """A model that streams letter by letter."""

    def __init__(self, *replies):
        self._replies = iter(replies)

    async def stream(self, messages):
        for letter in next(self._replies):
            yield letter

    async def __call__(self, messages):
        return next(self._replies)


def test_tokens_as_they_come():
    events = []
    with Agent(Piecewise(code("print(1)"), "One.")) as agent:
        result = agent.run("Count.", on_event=events.append)
    assert result.answer == "One."
    tokens = [event.token for event in events if isinstance(event, TokenEvent)]
    assert "".join(tokens) == code("print(1)") + "One."
    with Agent(Piecewise("One."), stream=False) as agent:
        events.clear()
        assert agent.run("Count.", on_event=events.append).answer == "One."
    assert [event.type for event in events] == ["final_answer"]


def test_best_of_several_replies_is_gone_on_with():
    rounds = iter(
        [
            [code("x = 1 / 0"), code("x = 5\nprint(x)"), code("x = 6")],
            [code("print(x + 1)"), code("print(y)"), "Too early: 5."],
            ["6", code("print(7)"), "six"],
        ]
    )
    current = []

    async def chat(messages):
        if not current:
            current.extend(next(rounds))
        return current.pop(0)

    with Agent(chat, best_of=3) as agent:
        result = agent.run("Count.")
        assert agent.session.get("x") == 5
    assert [step.observation for step in result.steps] == ["5", "6"]
    assert result.answer == "6"


def test_best_of_by_a_score_of_one_s_own():
    with belljar.default_runtime().session() as session:
        session.run("import pandas as pd\nprices = pd.Series([3, 4, 5])")
        codes = [f"result = float(prices.quantile({q}))" for q in (0.1, 0.9, 0.5)]
        best = best_of(session, codes, score=lambda outcome: outcome.result)
        assert best.index == 1
        assert best.outcome.result == max(run.result for run in best.runs)
        assert best.scores == tuple(run.result for run in best.runs)
        best.session.run("prices = None")
        # The best alternative is another session: the first is unchanged.
        assert session.run("len(prices)").stdout == "3\n"
        best.session.close()
        assert is_soon(lambda: len(belljar.default_runtime().sessions()) == 1)


def test_best_of_prefers_what_runs_and_shows_something():
    async def main():
        session = await belljar.default_runtime().asession()
        best = await abest_of(session, ["1 / 0", "x = 1", "print('shown')", "print('later')"])
        assert (best.index, best.outcome.stdout) == (2, "shown\n")
        with pytest.raises(ValueError, match="at least one"):
            await abest_of(session, [])
        session.close()
        best.session.close()

    asyncio.run(main())


def test_best_of_closes_its_forks_when_it_fails():
    runtime = belljar.default_runtime()
    with runtime.session() as session:
        with pytest.raises(belljar.BelljarError):
            best_of(session, ["1", "2"], timeout=-1)
        assert is_soon(lambda: len(runtime.sessions()) == 1)


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        ("no code", None),
        ("`x = 1`", None),
        ("```python\nx = 1\n```", "x = 1\n"),
        ("Text.\n\n```py\nx = 1\n```\nMore.\n```python\ny = 2\n```", "x = 1\n\ny = 2\n"),
        ("```\nx = 1\n```", "x = 1\n"),
        ("```json\n{}\n```\n```python\nx = 1\n```", "x = 1\n"),
        ("```json\n{}\n```", None),
        ("```python\nx = 1  # cut off", "x = 1  # cut off\n"),
        ("~~~python\nx = '''\n```\n'''\n~~~", "x = '''\n```\n'''\n"),
        ("````python\nx = '''\n```\n'''\n````", "x = '''\n```\n'''\n"),
        ("```python\n```", None),
        ("  ```python\n  x = 1\n  ```", "  x = 1\n"),
        ("```python\r\nx = 1\r\n```", "x = 1\r\n"),
    ],
)
def test_code_in_a_reply(reply, expected):
    assert extract_code(reply) == expected


def test_everything_is_exported():
    assert all(hasattr(agents, name) for name in agents.__all__)
