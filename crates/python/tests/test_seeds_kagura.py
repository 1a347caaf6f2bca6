"""The examples of Kagura's tutorial on code execution, run by belljar.

The model is scripted and answers over HTTP, through the real client. The tutorial's `agent`
decorator is not part of code execution; the few lines here replace it.
"""

import functools
import inspect
import json
import typing

import pytest

from scripted import ScriptedModel, code

pytest.importorskip("openai", reason="openai is not installed")

from belljar.compat import kagura as compat

pytestmark = pytest.mark.asyncio

# Code that a model would write, by words in the task.
PROGRAMS = {
    "factorial of 100": "import math\nresult = math.factorial(100)",
    "factorial of 10": "import math\nresult = math.factorial(10)",
    "2^10": "result = 2 ** 10",
    "from 1 to 100": "result = sum(range(1, 101))",
    "Reverse the string 'hello'": "result = 'hello'[::-1]",
    "5 * 5": "result = 5 * 5",
    "Print hello world": "print('hello world')",
    "even numbers": "result = [n for n in range(1, 11) if n % 2 == 0]",
    "Square each number": "result = [n ** 2 for n in [1, 2, 3, 4, 5]]",
    "average of [10": "result = sum([10, 20, 30, 40, 50]) / 5",
    "Extract the age": "result = {'name': 'Alice', 'age': 25, 'city': 'NYC'}['age']",
    "uppercase keys": (
        "result = {k.upper(): v for k, v in {'name': 'Alice', 'role': 'engineer'}.items()}"
    ),
    "average score": (
        "import json\n"
        'text = \'{"users": [{"score": 95}, {"score": 87}, {"score": 92}]}\'\n'
        "users = json.loads(text)['users']\n"
        "result = sum(user['score'] for user in users) / len(users)"
    ),
    "Filter only prime numbers": (
        "result = sum(n for n in range(2, 21) if all(n % d for d in range(2, n)))"
    ),
    "Fibonacci": (
        "result = [0, 1]\nwhile len(result) < 10:\n    result.append(result[-1] + result[-2])"
    ),
    "test scores": (
        "import statistics\n"
        "scores = [78, 92, 85, 88, 95, 72, 90]\n"
        "result = {'mean': round(statistics.mean(scores), 2),\n"
        "          'median': statistics.median(scores), 'mode': None}"
    ),
    "math.sqrt(16)": "import math\nresult = math.sqrt(16)",
    "json.dumps({'key'": "import json\nresult = json.dumps({'key': 'value'})",
    "datetime.now()": "from datetime import datetime\nresult = datetime.now().year",
    "Read file": "import os\nresult = os.listdir('.')",
    "Fetch data": "import requests\nresult = requests.get('https://api.example.com').text",
    "Run shell command": "import subprocess\nresult = subprocess.run(['ls'])",
    "Execute eval": "result = eval('1+1')",
    "between 1 and 50": "result = [n for n in range(2, 51) if all(n % d for d in range(2, n))]",
    "sum of [1,2,3]": "result = sum([1, 2, 3])",
    "'active'": (
        "result = [i for i in [{'id': 1, 'status': 'active'}, {'id': 2, 'status': 'off'}]\n"
        "          if i['status'] == 'active']"
    ),
    "Multiply each by 2": "result = [n * 2 for n in [1, 2, 3, 4, 5]]",
    "Filter numbers > 5": "result = [n for n in [2, 4, 6, 8, 10] if n > 5]",
    "Sum all numbers": "result = sum([6, 8, 10])",
    "(5 + 3) * 2 - 10": "result = (5 + 3) * 2 - 10",
    "total revenue": "result = sum([1000, 1500, 800])",
    "numbers up to 20": "result = [n for n in range(2, 21) if all(n % d for d in range(2, n))]",
    "print(42)": "print(42)",
    "Calculate 42": "result = 42",
    "Analyze this problem": "Divide each candidate by the smaller ones.",
    "Review this Python code": "Correct, and quadratic.",
}


def answer(messages):
    # A later attempt contains the earlier task: the last of the words decides.
    task = messages[-1]["content"]
    written = PROGRAMS[max((key for key in PROGRAMS if key in task), key=len)]
    prose = "Analyze this problem" in task or "Review this" in task
    return written if prose else code(written, "Here it is:")


@pytest.fixture(autouse=True)
def model(monkeypatch):
    compat.install()
    with ScriptedModel(answer) as scripted:
        monkeypatch.setenv("OPENAI_BASE_URL", f"{scripted.url}/v1")
        monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
        yield scripted
    compat.uninstall()


def agent(function):
    """Asks the model with the docstring, or runs the body if the function has one."""

    @functools.wraps(function)
    async def ask(*args, **kwargs):
        bound = inspect.signature(function).bind(*args, **kwargs).arguments
        result = await function(*args, **kwargs)
        if result is None:
            prompt = inspect.getdoc(function)
            for name, value in bound.items():
                prompt = prompt.replace("{{ %s }}" % name, str(value))  # noqa: UP031
            import openai

            done = await openai.AsyncOpenAI().chat.completions.create(
                model="gpt-4o", messages=[{"role": "user", "content": prompt}]
            )
            result = done.choices[0].message.content
        return typing.get_type_hints(function)["return"](result)

    return ask


async def test_why_code_execution():
    from kagura.agents import execute_code

    result = await execute_code("Calculate the factorial of 10")
    assert result["success"]
    assert result["result"] == 3628800
    assert result["code"] == "import math\nresult = math.factorial(10)\n"


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("What is 2^10?", 1024),
        ("Sum the numbers from 1 to 100", 5050),
        ("Reverse the string 'hello'", "olleh"),
    ],
)
async def test_basic_usage(task, expected):
    from kagura.agents import execute_code

    assert (await execute_code(task))["result"] == expected


async def test_understanding_the_result():
    from kagura.agents import execute_code

    result = await execute_code("Calculate the factorial of 10")
    assert list(result) == ["code", "success", "result", "error"]
    assert result["error"] is None
    assert (await execute_code("Calculate 5 * 5"))["result"] == 25
    hello = await execute_code("Print hello world")
    assert hello["success"]
    assert hello["result"] is None


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("\nFind all even numbers in [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]\n", [2, 4, 6, 8, 10]),
        ("\nSquare each number in [1, 2, 3, 4, 5]\n", [1, 4, 9, 16, 25]),
        ("\nCalculate the average of [10, 20, 30, 40, 50]\n", 30.0),
        ("\nFrom this data: {'name': 'Alice', 'age': 25, 'city': 'NYC'}\nExtract the age\n", 25),
        (
            "\nConvert this data to uppercase keys:\n{'name': 'Alice', 'role': 'engineer'}\n",
            {"NAME": "Alice", "ROLE": "engineer"},
        ),
    ],
)
async def test_data_processing(task, expected):
    from kagura.agents import execute_code

    assert (await execute_code(task))["result"] == expected


async def test_json_processing():
    from kagura.agents import execute_code

    json_data = json.dumps(
        {
            "users": [
                {"name": "Alice", "score": 95},
                {"name": "Bob", "score": 87},
                {"name": "Charlie", "score": 92},
            ]
        }
    )
    result = await execute_code(f"\nParse this JSON and find the average score:\n{json_data}\n")
    assert result["result"] == pytest.approx(91.333, abs=1e-3)


async def test_advanced_multi_step_calculations():
    from kagura.agents import execute_code

    result = await execute_code("""
1. Create a list of numbers from 1 to 20
2. Filter only prime numbers
3. Calculate their sum
""")
    assert "for n in range(2, 21)" in result["code"]
    assert result["result"] == 77


async def test_advanced_custom_algorithms():
    from kagura.agents import execute_code

    result = await execute_code("\nImplement the Fibonacci sequence up to the 10th number\n")
    assert result["result"] == [0, 1, 1, 2, 3, 5, 8, 13, 21, 34]


async def test_advanced_data_analysis():
    from kagura.agents import execute_code

    result = await execute_code("""
Given these test scores: [78, 92, 85, 88, 95, 72, 90]
Calculate:
- Mean
- Median
- Mode (if exists)
Return as a dictionary
""")
    assert result["result"] == {"mean": 85.71, "median": 88, "mode": None}


@pytest.mark.parametrize(
    ("task", "expected"),
    [
        ("\nimport math\nresult = math.sqrt(16)\n", 4.0),
        ("\nimport json\nresult = json.dumps({'key': 'value'})\n", '{"key": "value"}'),
    ],
)
async def test_security_allowed_modules(task, expected):
    from kagura.agents import execute_code

    assert (await execute_code(task))["result"] == expected


async def test_security_the_clock_is_the_host_s():
    from datetime import datetime

    from kagura.agents import execute_code

    task = "\nfrom datetime import datetime\nresult = datetime.now().year\n"
    assert abs((await execute_code(task))["result"] - datetime.now().year) <= 1


async def test_security_every_module_of_the_list():
    from kagura.core.executor import CodeExecutor

    modules = (
        "math random statistics json re string datetime collections itertools functools operator"
        " copy"
    ).split()
    lines = "\n".join(f"import {module}" for module in modules)
    names = ", ".join(modules)
    result = await CodeExecutor().execute(f"{lines}\nresult = [m.__name__ for m in [{names}]]")
    assert result.error is None
    assert result.result == modules


@pytest.mark.parametrize(
    ("task", "error"),
    [
        ("Read file config.txt", "Forbidden import: os"),
        ("Fetch data from https://api.example.com", "Forbidden import: requests"),
        ("Run shell command ls", "Forbidden import: subprocess"),
        ("Execute eval('1+1')", "Forbidden operation: eval"),
    ],
)
async def test_security_forbidden_operations(task, error):
    from kagura.agents import execute_code

    result = await execute_code(task)
    assert not result["success"]
    assert error in result["error"]


@pytest.mark.parametrize(
    "line",
    [
        *(f"import {name}" for name in ("os", "sys", "io", "pathlib", "socket", "urllib")),
        *(f"import {name}" for name in ("requests", "subprocess", "multiprocessing")),
        "open('x')",
        "eval('1')",
        "exec('1')",
        "compile('1', 'x', 'eval')",
        "__import__('os')",
    ],
)
async def test_security_list_of_what_is_forbidden(line):
    from kagura.core.executor import CodeExecutor

    assert not (await CodeExecutor().execute(line)).success


async def test_timeout_protection():
    from kagura.core.executor import CodeExecutor

    assert CodeExecutor(timeout=10.0).timeout == 10.0
    executor = CodeExecutor(timeout=0.5)
    result = await executor.execute("""
import time
time.sleep(15)  # Will timeout
result = "done"
""")
    assert result.success is False
    assert "Execution timeout" in result.error
    assert "TimeoutError" in result.error


async def test_custom_code_executor():
    from kagura.core.executor import CodeExecutor

    executor = CodeExecutor(
        timeout=10.0,
        max_output_size=1000,
    )
    result = await executor.execute("""
result = sum(range(1, 1001))
""")
    assert result.success is True
    assert result.result == 500500
    assert result.code == "\nresult = sum(range(1, 1001))\n"
    assert result.error is None
    long = await executor.execute("for n in range(1000):\n    print(n)")
    assert len(long.stdout) == 1000


async def test_execution_result_object():
    from kagura.core.executor import CodeExecutor, ExecutionResult

    result = await CodeExecutor().execute("result = 42")
    assert isinstance(result, ExecutionResult)
    assert (result.success, result.result, result.code) == (True, 42, "result = 42")
    assert (result.error, result.stdout) == (None, "")


async def test_plan_code_execute_pattern(capsys):
    from kagura.agents import execute_code

    @agent
    async def plan_solution(problem: str) -> str:
        """
        Analyze this problem and describe the algorithm:
        {{ problem }}
        Provide step-by-step approach.
        """

    async def solve_with_code(problem: str):
        plan = await plan_solution(problem)
        print(f"Plan: {plan}")
        result = await execute_code(problem)
        if result["success"]:
            print(f"Result: {result['result']}")
            print(f"Code:\n{result['code']}")
        else:
            print(f"Error: {result['error']}")

    await solve_with_code("Find all prime numbers between 1 and 50")
    printed = capsys.readouterr().out
    assert printed.startswith("Plan: Divide each")
    assert "Result: [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47]\n" in printed


async def test_iterative_refinement(model):
    from kagura.agents import execute_code

    async def solve_with_retry(problem: str, max_retries: int = 3):
        for _ in range(max_retries):
            result = await execute_code(problem)
            if result["success"]:
                return result["result"]
            error = result["error"]
            problem = f"{problem}\n\nPrevious error: {error}\nPlease fix and try again."
        raise Exception(f"Failed after {max_retries} attempts")

    assert await solve_with_retry("Calculate 5 * 5") == 25
    with pytest.raises(Exception, match="Failed after 2 attempts"):
        await solve_with_retry("Read file data.txt", max_retries=2)
    # Each of the two asked three times, the default.
    assert len(model.requests) == 1 + 2 * 3
    assert "Previous error: SecurityError: Forbidden import: os" in str(model.requests[-1])


async def test_code_review_agent(capsys):
    from kagura.agents import execute_code

    @agent
    async def review_code(code: str) -> str:
        """
        Review this Python code for:
        - Correctness
        - Efficiency
        Code:
        {{ code }}
        """

    result = await execute_code("Calculate 5 * 5")
    assert result["success"]
    assert await review_code(result["code"]) == "Correct, and quadratic."


async def test_best_practices():
    from kagura.agents import execute_code
    from kagura.core.executor import CodeExecutor

    clear = await execute_code("""
Calculate the factorial of 10.
Store the result in a variable named 'result'.
""")
    assert clear["result"] == 3628800
    value = (await execute_code("Calculate sum of [1,2,3]"))["result"]
    assert isinstance(value, int)
    assert value > 0
    data = [{"id": 1, "status": "active"}, {"id": 2, "status": "off"}]
    active = await execute_code(f"""
Given this data: {json.dumps(data)}
Extract all items where status is 'active'
Return as a list
Example output: [item1, item2, ...]
""")
    assert active["result"] == data[:1]
    assert (await CodeExecutor(timeout=1.0).execute("result = 2 + 2")).result == 4


async def test_data_transformation_pipeline():
    from kagura.agents import execute_code

    async def transform_data(data: list, operations: list[str]):
        current_data = data
        for operation in operations:
            result = await execute_code(f"""
Apply this operation to the data: {operation}
Data: {current_data}
""")
            if result["success"]:
                current_data = result["result"]
            else:
                raise Exception(f"Failed: {result['error']}")
        return current_data

    operations = ["Multiply each by 2", "Filter numbers > 5", "Sum all numbers"]
    assert await transform_data([1, 2, 3, 4, 5], operations) == 24


async def test_calculator_agent():
    from kagura.agents import execute_code

    @agent
    async def calculate(expression: str) -> float:
        """A calculator agent that evaluates expressions"""
        result = await execute_code(f"Calculate: {expression}")
        if result["success"]:
            return result["result"]
        raise ValueError(f"Calculation failed: {result['error']}")

    assert await calculate("(5 + 3) * 2 - 10") == 6.0


async def test_data_analysis_agent():
    from kagura.agents import execute_code

    async def analyze_dataset(data: list[dict], query: str):
        result = await execute_code(f"""
Dataset: {json.dumps(data)}
Query: {query}
Analyze the dataset and answer the query.
""")
        return result["result"] if result["success"] else None

    sales_data = [
        {"product": "A", "revenue": 1000},
        {"product": "B", "revenue": 1500},
        {"product": "C", "revenue": 800},
    ]
    assert await analyze_dataset(sales_data, "What is the total revenue?") == 3300


async def test_exercise_1_prime_number_finder():
    from kagura.agents import execute_code

    async def find_primes(n: int):
        result = await execute_code(f"\nFind all prime numbers up to {n}\nReturn as a list\n")
        return result["result"] if result["success"] else []

    assert await find_primes(20) == [2, 3, 5, 7, 11, 13, 17, 19]


async def test_troubleshooting():
    from kagura.agents import execute_code
    from kagura.core.executor import CodeExecutor

    assert (await execute_code("print(42)"))["result"] is None
    stored = await execute_code("Calculate 42 and store in result variable")
    assert stored["result"] == 42
    assert "Forbidden import" in (await execute_code("Read file data.txt"))["error"]
    hundred = await CodeExecutor(timeout=30.0).execute("import math\nresult = math.factorial(100)")
    assert hundred.success
