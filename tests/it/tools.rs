//! Tools: functions of the caller that the code calls, honestly and otherwise.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use belljar::event::{Running, Turn};
use belljar::outcome::{ErrorKind, ToolErrorKind};
use belljar::request::{Capture, Deterministic};
use belljar::tool::{ToolError, ToolLimits};
use belljar::value::{Opaque, Value as Typed};
use belljar::{Interrupt, Outcome, Policy, Request, SessionOptions, Tool};
use serde_json::{Value, json};

use crate::support::{check, failed, run, runtime, still_serves, succeeded, tokio};

fn any() -> Value {
    json!({"type": "object"})
}

/// Answers with its arguments.
fn echo() -> Tool {
    Tool::new("echo", any(), async |arguments: Value| Ok(arguments))
}

/// Sleeps for this many seconds, and answers with them.
fn nap() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {"seconds": {"type": "number", "minimum": 0}},
        "required": ["seconds"],
        "additionalProperties": false,
    });
    Tool::new("nap", schema, async |arguments: Value| {
        let seconds = arguments["seconds"].as_f64().unwrap_or_default();
        tokio::time::sleep(Duration::from_secs_f64(seconds)).await;
        Ok(seconds)
    })
}

fn price() -> Tool {
    let schema = json!({
        "type": "object",
        "properties": {
            "symbol": {"type": "string", "description": "such as ACME"},
            "currency": {"type": "string", "enum": ["USD", "EUR"], "default": "USD"},
            "days": {"type": "integer"},
        },
        "required": ["symbol"],
        "additionalProperties": false,
    });
    Tool::new("price", schema, async |arguments: Value| match arguments["symbol"].as_str() {
        Some("ACME") => Ok(json!({"price": 42.5, "asked": arguments})),
        Some("BOOM") => panic!("a tool that panics"),
        Some("LEAK") => Err(std::io::Error::other("the password is 1234"))?,
        Some("MINE") => Err(ToolError::denied("not yours")),
        other => Err(ToolError::message(format!("there is no {other:?}"))),
    })
    .description("The latest price of a share.")
}

#[track_caller]
fn with_tools(code: &str) -> Outcome {
    run(Request::new(code).image("core").tool(echo()).tool(price()).tool(nap())).outcome
}

#[track_caller]
fn prints(code: &str, expected: &str) -> Outcome {
    let outcome = with_tools(code);
    assert_eq!(outcome.stdout, expected, "{outcome:#?}");
    succeeded(&outcome);
    outcome
}

#[test]
fn code_calls_a_tool_and_gets_its_answer() {
    let outcome = prints(
        "import tools\nfrom tools import price\n\
         print(tools.price('ACME')['price'] * 2)\n\
         print(price(symbol='ACME', days=3)['asked'])\n\
         print(price('ACME', 'EUR', None)['asked'])\n\
         from host import tools as same\nprint(same is tools)",
        "85.0\n{'symbol': 'ACME', 'days': 3}\n{'symbol': 'ACME', 'currency': 'EUR'}\nTrue\n",
    );
    assert_eq!(outcome.tool_calls.len(), 3);
    let call = &outcome.tool_calls[1];
    assert_eq!((call.id, call.name.as_str(), call.ok), (2, "price", true));
    assert_eq!(call.arguments, json!({"symbol": "ACME", "days": 3}));
    assert!(call.answer_bytes > 10 && call.duration_ms >= 0.0, "{call:?}");
}

#[test]
fn a_group_of_tools_is_a_module() {
    let of = |name: &str| Tool::new(name, any(), async |arguments: Value| Ok(arguments));
    let code = "import tools, tools.shop\nfrom tools.shop import price\n\
                print(price(a=1), tools.shop.stock(b=2), tools.price(c=3))\n\
                print(price.__module__, price.__name__, tools.__all__)\n\
                try: price(a=float('nan'))\nexcept tools.ToolError as e: print(e.tool)";
    let request = Request::new(code).image("core");
    let outcome =
        run(request.tool(of("shop.price")).tool(of("shop.stock")).tool(of("price"))).outcome;
    let printed =
        "{'a': 1} {'b': 2} {'c': 3}\ntools.shop price ['price', 'shop', 'ToolError']\nshop.price\n";
    assert_eq!(outcome.stdout, printed, "{outcome:#?}");
    assert_eq!(outcome.tool_calls[0].name, "shop.price");
    let request = Request::new("1").tool(of("shop")).tool(of("shop.price"));
    let refused = runtime().blocking().run(request).unwrap_err().to_string();
    assert!(refused.contains("shop is a tool"), "{refused}");
}

#[test]
fn values_go_and_come_as_json() {
    prints(
        "import tools\n\
         values = {'n': None, 't': True, 'i': -3, 'f': 1.5, 's': 'é\\U0001f600', 'l': [1, [2]], 'd': {'k': {}}}\n\
         print(tools.echo(**values) == values)\n\
         print(tools.echo(t=(1, 2), s={3}, b=b'ab'))",
        "True\n{'t': [1, 2], 's': [3], 'b': 'YWI='}\n",
    );
}

#[test]
fn numpy_and_pandas_go_as_lists_and_records() {
    let code = "import tools, numpy as np, pandas as pd\n\
                print(tools.echo(a=np.arange(3), n=np.float64(1.5), d=pd.DataFrame({'x': [1, 2]})))";
    let outcome = run(Request::new(code).tool(echo())).outcome;
    assert_eq!(outcome.stdout, "{'a': [0, 1, 2], 'n': 1.5, 'd': [{'x': 1}, {'x': 2}]}\n");
}

/// Answers with its arguments, typed.
fn typed_echo() -> Tool {
    let schema = json!({"type": "object", "properties": {"value": {}}, "required": ["value"],
        "additionalProperties": false});
    Tool::values("same", schema, async |mut arguments| {
        Ok(arguments.remove("value").unwrap_or_default())
    })
}

#[test]
fn typed_values_arrive_as_themselves_in_both_directions() {
    let code = "import datetime, decimal, tools\n\
        import numpy as np, pandas as pd\n\
        plain = [(1, {2}), 2 ** 200, -(2 ** 63) - 1, b'ab', float('inf'), {3: 'x', '$': 1}, None,\n\
        \x20   datetime.datetime(2024, 1, 2, 3, tzinfo=datetime.UTC), decimal.Decimal('1.10')]\n\
        for one in plain:\n\
        \x20   got = tools.same(one)\n\
        \x20   assert got == one and type(got) is type(one), (one, got)\n\
        for array in [np.arange(6, dtype='i2').reshape(2, 3), np.arange(20_000.0)[::2], np.asfortranarray(np.ones((300, 200)))]:\n\
        \x20   got = tools.same(array)\n\
        \x20   assert got.dtype == array.dtype and (got == array).all(), array.dtype\n\
        frame = pd.DataFrame({'a': range(5_000), 't': pd.Timestamp(2024, 1, 2), 's': 'x'})\n\
        pd.testing.assert_frame_equal(tools.same(frame), frame)\n\
        print(tools.same.begin((1, 2)).result())\n";
    let outcome = run(Request::new(code).tool(typed_echo())).outcome;
    assert_eq!(outcome.stdout, "(1, 2)\n", "{outcome:#?}");
    assert_eq!(
        outcome.tool_calls.last().unwrap().arguments,
        json!({"value": {"$": "tuple", "items": [1, 2]}})
    );
    let lengths = outcome.tool_calls.iter().map(|call| call.arguments.to_string().len());
    assert!(lengths.max().unwrap() < 10_000, "large values are recorded in short form");
    let code = "import asyncio, tools\n\
                print(await asyncio.gather(tools.same((1,)), tools.same(2 ** 70)))";
    let outcome = run(Request::new(code).image("core").tool(typed_echo())).outcome;
    assert_eq!(outcome.stdout, format!("[(1,), {}]\n", 1u128 << 70), "{outcome:#?}");
}

#[test]
fn the_function_is_given_typed_values() {
    let tool = Tool::values("kind", any(), async |mut arguments| match arguments.remove("value") {
        Some(Typed::Tuple(items)) => Ok(Typed::from(format!("tuple of {}", items.len()))),
        Some(Typed::BigInt(number)) => Ok(Typed::from(number.to_string())),
        Some(Typed::Int(0)) => Ok(Typed::Opaque(Box::new(Opaque::new("a.B", "<B>")))),
        other => Err(ToolError::message(format!("{other:?}"))),
    });
    let code = "import tools\nprint(tools.kind(value=(1, 2)), tools.kind(value=2 ** 64))\n\
                try:\n    tools.kind(value=0)\nexcept tools.ToolError as e: print(e.kind, e)";
    let outcome = run(Request::new(code).image("core").tool(tool)).outcome;
    assert_eq!(
        outcome.stdout, "tuple of 2 0x10000000000000000\ntool_error internal error\n",
        "{outcome:#?}"
    );
}

#[test]
fn typed_calls_are_checked_and_bounded_and_forged_ones_refused() {
    let code = "import _host, struct, tools\n\
        cyclic = []; cyclic.append(cyclic)\n\
        deep = []\n\
        for _ in range(40): deep = [deep]\n\
        def kind(f):\n    try: return type(f()).__name__\n    except tools.ToolError as e: return e.kind\n\
        for bad in [object(), cyclic, deep, [lambda: 0]]: print(kind(lambda: tools.same(bad)))\n\
        print(kind(lambda: tools.same()), kind(lambda: tools.same(1, other=2)))\n\
        print(kind(lambda: tools.same(b'x' * 2000)), kind(lambda: tools.same(b'x' * (20 << 20))))\n\
        def forged(head, rest=b'', name=b'same'):\n\
        \x20   frame = bytes([len(name)]) + name + struct.pack('<I', len(head)) + head + rest\n\
        \x20   print(b'invalid_arguments' in _host.call(b'C' + frame))\n\
        value = b'{\"value\":{\"$\":\"bytes\",\"data\":0}}]'\n\
        forged(b'[[[0,0,3,1,0]],' + value, b'abc')\n\
        forged(b'[[[0,0,4,1,0]],' + value, b'abc')\n\
        forged(b'[[[1,0,3,1,0]],' + value)\n\
        forged(b'[[[0,0,100,100,0]],' + value, b'x' * 100)\n\
        forged(b'[[],{\"value\":{\"$\":\"opaque\",\"class\":\"a\",\"repr\":\"b\"}}]')\n\
        forged(b'[[],[1]]')\nforged(b'{}')\nforged(b'[[],{}]', name=b'\\xff')\n\
        forged(b'[[],{\"value\":1}]', name=b'echo')\n\
        for frame in (b'C', b'C\\xff', b'B\\x04same'):\n    print(_host.call(frame)[:1])\n\
        print(b'invalid_arguments' in _host.call(b'c{\"name\":\"same\",\"arguments\":{\"value\":1}}'))";
    let limits = ToolLimits::default().argument_bytes(1_500);
    let request = Request::new(code).image("core").tool(typed_echo()).tool(echo());
    let outcome = run(request.tool_limits(limits)).outcome;
    let expected = "invalid_arguments\n".repeat(4)
        + "invalid_arguments invalid_arguments\ntoo_large too_large\nFalse\n"
        + &"True\n".repeat(8)
        + &"b'{'\n".repeat(3)
        + "True\n";
    assert_eq!(outcome.stdout, expected, "{outcome:#?}");
    still_serves();
}

#[test]
fn integers_that_json_would_round_are_refused() {
    prints(
        "import tools\n\
         print(tools.echo(n=2 ** 64 - 1, m=-(2 ** 63)), tools.echo(s='9' * 30)['s'] == '9' * 30)\n\
         for n in (2 ** 64, [-(2 ** 63) - 1]):\n\
         \x20   try: print(tools.echo(n=n))\n\
         \x20   except tools.ToolError as e: print(e.kind, 'lose digits' in e.message)",
        "{'n': 18446744073709551615, 'm': -9223372036854775808} True\n\
         invalid_arguments True\ninvalid_arguments True\n",
    );
}

#[test]
fn help_shows_the_signature_and_the_description() {
    let outcome = with_tools("import tools\nhelp(tools.price)\nhelp(tools)\nprint(tools.__all__)");
    for text in [
        "price(symbol: str, currency: str = 'USD', days: int = None)",
        "The latest price of a share.",
        "symbol (string): such as ACME",
        "currency (string, optional, one of 'USD', 'EUR')",
        "Functions of the host.",
        "['echo', 'price', 'nap', 'ToolError']",
    ] {
        assert!(outcome.stdout.contains(text), "{text}\n{}{}", outcome.stdout, outcome.stderr);
    }
}

#[test]
fn only_what_was_meant_for_the_code_crosses() {
    use ToolErrorKind as Kind;

    let code = "import tools\n\
                def attempt(f):\n    try:\n        f()\n    except tools.ToolError as e:\n        print(e.tool, e.kind, e.message)\n\
                for symbol in ('NONE', 'MINE', 'LEAK', 'BOOM'):\n    attempt(lambda: tools.price(symbol))\n";
    let outcome = prints(
        code,
        "price tool_error there is no Some(\"NONE\")\nprice denied not yours\n\
         price tool_error internal error\nprice tool_error internal error\n",
    );
    assert!(!serde_json::to_string(&outcome).unwrap().contains("1234"));
    let kinds: Vec<_> = outcome.tool_calls.iter().map(|c| c.error.as_ref().unwrap().kind).collect();
    assert_eq!(kinds, [Kind::ToolError, Kind::Denied, Kind::ToolError, Kind::ToolError]);
    still_serves();
}

#[test]
fn an_error_that_is_not_caught_ends_the_run_and_shows_no_frame_of_the_runner() {
    let outcome = with_tools("import tools\nprint('so far')\ntools.price('MINE')\n");
    failed(&outcome, ErrorKind::Exception);
    assert_eq!(outcome.error.as_deref(), Some("ToolError: price: denied: not yours"));
    let detail = outcome.error_detail.unwrap();
    assert_eq!(detail.line, Some(3));
    assert!(!detail.traceback.unwrap().contains("belljar"), "{}", outcome.stderr);
}

#[test]
fn arguments_are_checked_before_the_function_runs() {
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let schema = json!({
        "type": "object",
        "properties": {"n": {"type": "integer", "maximum": 9}},
        "required": ["n"],
        "additionalProperties": false,
    });
    let tool = Tool::new("count", schema, move |_: Value| {
        count.fetch_add(1, Ordering::Relaxed);
        async { Ok(()) }
    });
    let code = "import tools\n\
        cyclic = []; cyclic.append(cyclic)\n\
        deep = []\n\
        for _ in range(100_000): deep = [deep]\n\
        class Odd:\n    def __repr__(self): raise SystemExit\n\
        for bad in [{}, {'n': 'x'}, {'n': 10}, {'n': 1, 'm': 2}, {'n': cyclic}, {'n': deep},\n\
                    {'n': float('nan')}, {'n': Odd()}, {'n': 10 ** 5000}, {'n': object}]:\n\
        \x20   try:\n        print('answered', tools.count(**bad))\n\
        \x20   except tools.ToolError as e:\n        print(e.kind)\n\
        try: tools.count(1, 2)\nexcept TypeError as e: print(e)\n\
        try: tools.count(1, n=2)\nexcept TypeError as e: print(e)\n\
        print(tools.count(9))";
    let outcome = run(Request::new(code).image("core").tool(tool)).outcome;
    let expected = "invalid_arguments\n".repeat(10)
        + "count() takes 1 positional argument but 2 were given\n\
           count() got multiple values for argument 'n'\nNone\n";
    assert_eq!(outcome.stdout, expected, "{outcome:#?}");
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[test]
fn awaited_tools_work_at_the_same_time() {
    let code = "import asyncio, tools\n\
                got = await asyncio.gather(*(tools.nap(0.2 + i / 1000) for i in range(10)))\n\
                print([round(x * 1000) for x in got])";
    let started = Instant::now();
    prints(code, "[200, 201, 202, 203, 204, 205, 206, 207, 208, 209]\n");
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
}

#[test]
fn a_loop_waits_for_answers_and_timers_alike() {
    prints(
        "import asyncio, time, tools\n\
         async def tick(): \n    for i in range(3):\n        await asyncio.sleep(0.01)\n        print('tick')\n\
         async def ask():\n    print('asked', await tools.nap(0.3))\n\
         await asyncio.gather(ask(), tick())\n\
         start = time.monotonic()\n\
         try:\n    await asyncio.wait_for(tools.nap(60), 0.05)\n\
         except TimeoutError:\n    print('given up', time.monotonic() - start < 5)\n\
         done, _ = await asyncio.wait([tools.nap(60), tools.nap(0.01)], return_when='FIRST_COMPLETED')\n\
         print(done.pop().result())\n\
         print(asyncio.run.__name__, tools.nap.wait(0.01))\n",
        "tick\ntick\ntick\nasked 0.3\ngiven up True\n0.01\nrun 0.01\n",
    );
}

#[test]
fn a_thread_that_is_none_waits_for_its_answer() {
    prints(
        "import asyncio, tools\nfrom concurrent.futures import ThreadPoolExecutor\n\
         print(await asyncio.to_thread(tools.nap, 0.01))\n\
         with ThreadPoolExecutor(4) as pool: print(list(pool.map(tools.nap.wait, [0.01, 0.02])))",
        "0.01\n[0.01, 0.02]\n",
    );
}

#[test]
fn events_tell_calls_and_answers_in_order() {
    let code = "import tools\nprint('a')\ntools.echo(x=1)\nprint('b')\n\
                try:\n    tools.nothing(y=2)\nexcept AttributeError: pass\n\
                try:\n    tools.price('MINE')\nexcept tools.ToolError: print('c')";
    let capture = Capture::default().events(true);
    let request = Request::new(code).image("core").tool(echo()).tool(price()).capture(capture);
    let outcome = run(request).outcome;
    let kinds: Vec<String> = outcome
        .events
        .unwrap()
        .iter()
        .map(|event| {
            let event = serde_json::to_value(event).unwrap();
            let of = |key: &str| event[key].as_str().unwrap_or_default().trim().to_owned();
            format!("{} {}{}{}", of("type"), of("text"), of("name"), event["ok"])
                .replace("null", "")
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "started ",
            "stdout a",
            "tool_call echo",
            "tool_answer echotrue",
            "stdout b",
            "tool_call price",
            "tool_answer pricefalse",
            "stdout c",
            "ended "
        ]
    );
}

#[test]
fn a_call_that_is_given_up_is_dropped_and_says_so() {
    let outcome = with_tools(
        "import asyncio, tools\n\
         task = asyncio.ensure_future(tools.nap(60))\nawait asyncio.sleep(0.01)\ntask.cancel()\n\
         await asyncio.sleep(0)\n\
         try:\n    await tools.price('NONE')\nexcept tools.ToolError as e:\n    print(e)",
    );
    assert_eq!(outcome.stdout, "there is no Some(\"NONE\")\n", "{outcome:#?}");
    let error = outcome.tool_calls[0].error.as_ref().unwrap();
    assert_eq!(error.kind, ToolErrorKind::Cancelled, "{outcome:#?}");
    assert!(outcome.tool_calls[0].duration_ms < 10_000.0);
}

#[test]
fn code_without_a_loop_can_begin_several_calls() {
    let started = Instant::now();
    prints(
        "import asyncio, tools\ncalls = [tools.nap.begin(0.2) for _ in range(10)]\n\
         print(sum(c.result() for c in calls), calls[0].result())\n\
         async def main(): return await tools.nap(0.1)\nprint(asyncio.run(main()))",
        "2.0 0.2\n0.1\n",
    );
    assert!(started.elapsed() < Duration::from_millis(1500), "{:?}", started.elapsed());
}

#[test]
fn calls_are_bounded_and_one_too_many_costs_the_host_nothing() {
    let limits = ToolLimits::default().calls(5);
    let code = "import tools\nkinds = {}\n\
                for i in range(1_000_000):\n    try:\n        tools.echo(i=i); kind = 'ok'\n\
                \x20   except tools.ToolError as e: kind = e.kind\n    kinds[kind] = kinds.get(kind, 0) + 1\n\
                print(kinds)";
    let request = Request::new(code).image("core").tool(echo()).tool_limits(limits);
    let outcome = run(request.timeout(Duration::from_mins(10))).outcome;
    assert_eq!(outcome.stdout, "{'ok': 5, 'budget_exceeded': 999995}\n", "{outcome:#?}");
    assert_eq!(outcome.tool_calls.len(), 6);
}

#[test]
fn bytes_are_bounded_for_one_call_and_for_all() {
    let big = Tool::new("big", any(), async |asked: Value| {
        Ok("x".repeat(usize::try_from(asked["n"].as_u64().unwrap()).unwrap()))
    });
    let limits =
        ToolLimits::default().argument_bytes(1_000).answer_bytes(10_000).total_bytes(30_000);
    let code = "import tools\n\
        def kind(f):\n    try: return len(f())\n    except tools.ToolError as e: return e.kind\n\
        print(kind(lambda: tools.big(n=1, fill='x' * 2000)), kind(lambda: tools.big(n=20_000)))\n\
        print(kind(lambda: tools.big(n=9, fill='x' * (20 << 20))))\n\
        print([kind(lambda: tools.big(n=9_000)) for _ in range(5)])";
    let request = Request::new(code).image("core").tool(big).tool_limits(limits);
    let outcome = run(request).outcome;
    assert_eq!(
        outcome.stdout,
        "too_large too_large\ntoo_large\n[9000, 9000, 9000, 'budget_exceeded', 'budget_exceeded']\n",
        "{outcome:#?}"
    );
}

#[test]
fn an_answer_that_does_not_fit_into_memory_is_an_error_in_the_code() {
    let big = Tool::new("big", any(), async |_: Value| Ok("x".repeat(60 << 20)));
    let code = "import tools\ntry:\n    tools.big()\nexcept (tools.ToolError, MemoryError) as e:\n    print('no')";
    let limits = ToolLimits::default().answer_bytes(64 << 20).total_bytes(1 << 30);
    let request = Request::new(code).image("core").tool(big).tool_limits(limits).memory_mib(8);
    let outcome = run(request).outcome;
    assert_eq!(outcome.stdout, "no\n", "{outcome:#?}");
}

#[test]
fn too_many_calls_at_once_are_refused_and_the_rest_is_answered() {
    prints(
        "import asyncio, tools\n\
         got = await asyncio.gather(*(tools.nap(0.05) for i in range(300)), return_exceptions=True)\n\
         print(sum(x == 0.05 for x in got), {x.kind for x in got if x != 0.05})",
        "256 {'budget_exceeded'}\n",
    );
}

#[test]
fn a_tool_that_never_answers_is_stopped_by_its_own_time_or_the_runs() {
    let never =
        || Tool::new("never", any(), async |_: Value| Ok(std::future::pending::<Value>().await));
    let code =
        "import tools\ntry:\n    tools.never()\nexcept tools.ToolError as e:\n    print(e.kind, e)";
    let request = Request::new(code).image("core");
    let outcome = run(request.clone().tool(never().timeout(Duration::from_millis(50)))).outcome;
    assert_eq!(outcome.stdout, "timeout never: timeout: it did not answer within 0.05 seconds\n");

    let outcome = run(request.tool(never()).timeout(Duration::from_millis(300))).outcome;
    failed(&outcome, ErrorKind::Timeout);
    assert_eq!(outcome.error_detail.unwrap().line, Some(3));
    let error = outcome.tool_calls[0].error.as_ref().unwrap();
    assert_eq!(error.kind, ToolErrorKind::Cancelled);
    assert!(outcome.usage.wall_ms < 2_000.0);

    // The same when waiting with a loop.
    let code = "import tools\nawait tools.never()";
    let request = Request::new(code).image("core").tool(never());
    let outcome = run(request.timeout(Duration::from_millis(300))).outcome;
    failed(&outcome, ErrorKind::Timeout);
    assert!(outcome.usage.wall_ms < 2_000.0);
}

#[test]
fn a_dropped_future_drops_what_its_tools_were_doing() {
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let (begun, count) = (Arc::new(tokio::sync::Notify::new()), dropped.clone());
    let signal = begun.clone();
    let tool = Tool::new("hang", any(), move |_: Value| {
        let (guard, signal) = (Guard(count.clone()), signal.clone());
        async move {
            let _guard = guard;
            signal.notify_one();
            std::future::pending::<()>().await;
            Ok(())
        }
    });
    tokio(2).block_on(async {
        let request = Request::new("import tools\ntools.hang()").image("core").tool(tool);
        let run = runtime().run(request);
        tokio::select! {
            run = run => panic!("{:#?}", run.unwrap().outcome),
            () = begun.notified() => {}
        }
    });
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn forged_frames_cost_the_forger_alone() {
    let outcome = with_tools(
        "import _host, json\n\
         def attempt(frame):\n    try: return _host.call(frame)\n    except Exception as e: return type(e).__name__\n\
         print(attempt(b'c'), attempt(b'c{}'), attempt(b'c[' * 1000))\n\
         print(attempt(b'c{\"name\":\"price\"}'), attempt(b'c{\"name\":1,\"arguments\":{}}'))\n\
         print(attempt(b'c{\"name\":\"none\",\"arguments\":{}}'))\n\
         print(attempt(b'c{\"name\":\"echo\",\"arguments\":[1]}'))\n\
         print(attempt(b'a{\"ids\":[7,99999],\"seconds\":null}'), attempt(b'a{}'), attempt(b'a{\"ids\":[-1],\"seconds\":null}'))\n\
         print(attempt(b'a{\"ids\":[],\"seconds\":1e308}')[:2] if False else '', attempt(b'k{\"id\":12345}'), attempt(b'k'))\n\
         print(attempt(b'a' + json.dumps({'ids': list(range(1000)), 'seconds': None}).encode()))\n\
         print(attempt(b'n{\"prompt\":\"x\"}'), attempt(b'n{}'))\n",
    );
    succeeded(&outcome);
    assert_eq!(outcome.stdout.lines().count(), 8, "{outcome:#?}");
    assert!(outcome.stdout.contains("there is no such call"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("unknown_tool"), "{}", outcome.stdout);
    still_serves();
}

#[test]
fn a_run_without_tools_has_none() {
    let outcome = run(Request::new("import tools").image("core")).outcome;
    let detail = outcome.error_detail.unwrap();
    assert_eq!(detail.type_, "ModuleNotFoundError");
    assert!(detail.hint.unwrap().contains("no tools"));
    let outcome = run(Request::new("from host import tools").image("core")).outcome;
    assert_eq!(outcome.error_detail.as_ref().unwrap().type_, "ModuleNotFoundError", "{outcome:#?}");
    assert!(outcome.error_detail.unwrap().hint.unwrap().contains("no tools"));
    // The user's own module of that name can be imported.
    let request = Request::new("import tools, host\nprint(tools.x, host.y)").image("core");
    let outcome = run(request.file("tools.py", "x = 1").file("host.py", "y = 2")).outcome;
    assert_eq!(outcome.stdout, "1 2\n", "{outcome:#?}");
}

#[test]
fn what_cannot_be_a_tool_is_refused_with_every_reason() {
    let request = Request::new("")
        .tool(echo())
        .tool(echo())
        .tool(Tool::new("no name", any(), async |v: Value| Ok(v)))
        .tool(Tool::new("x", json!({"type": "string"}), async |v: Value| Ok(v)))
        .tool_limits(ToolLimits::default().calls(u32::MAX));
    let error = runtime().blocking().run(request).unwrap_err().to_string();
    for text in ["echo is given twice", "\"no name\"", "the schema of x", "tool_limits: calls"] {
        assert!(error.contains(text), "{text}: {error}");
    }
}

#[test]
fn a_policy_lets_given_tools_be_imported() {
    let code = "import tools\nprint(tools.price('ACME')['price'])";
    let request = Request::new(code).image("core").policy(Policy::Strict);
    let outcome = run(request.clone().tool(price())).outcome;
    assert_eq!(outcome.stdout, "42.5\n", "{outcome:#?}");
    failed(&run(request).outcome, ErrorKind::Policy);
}

#[test]
fn a_repeatable_run_sees_the_same_whatever_its_tools_take() {
    let code = "import asyncio, time, tools\n\
        start = time.time()\n\
        done, left = await asyncio.wait([tools.nap(0.05), tools.nap(0.0), tools.nap(0.02)], timeout=0.001,\n\
        \x20   return_when='FIRST_COMPLETED')\n\
        print(sorted(d.result() for d in done), len(left), time.time() - start < 0.001)\n";
    let outcome = || {
        let request = Request::new(code).image("core").tool(nap());
        let mut outcome = run(request.deterministic(Deterministic::new(7))).outcome;
        outcome.usage.wall_ms = 0.0;
        outcome
    };
    let (one, other) = (outcome(), outcome());
    assert_eq!(one.stdout, "[0.0, 0.02, 0.05] 0 True\n", "{one:#?}");
    assert_eq!(one, other);
}

#[test]
fn sessions_have_tools_for_all_runs_and_for_one() {
    let runtime = runtime().blocking();
    let session = runtime.session(SessionOptions::new().image("core").tool(price())).unwrap();
    let own = Tool::new("price", any(), async |_: Value| Ok("another"));
    let code = "import tools\nprint(tools.price(symbol='ACME'))";
    let outcome = session.run(Request::new("import tools\ntools.price('ACME')['price']")).unwrap();
    check(&outcome);
    assert_eq!(outcome.stdout, "42.5\n", "{outcome:#?}");
    assert_eq!(session.run(Request::new(code).tool(own).tool(echo())).unwrap().stdout, "another\n");
    // The previous run's module is gone, and so are its open calls.
    let late = "old = tools\nimport tools\n\
                try:\n    old.echo(x=1)\nexcept tools.ToolError as e: print(e.kind)";
    assert_eq!(session.run(Request::new(late)).unwrap().stdout, "unknown_tool\n");
    let outcome = session.run(Request::new("f = asyncio.ensure_future(tools.nap(30))").tool(nap()));
    assert!(!outcome.unwrap().success);
    let code =
        "import asyncio, tools\nf = asyncio.ensure_future(tools.nap(30)); await asyncio.sleep(0)";
    succeeded(&session.run(Request::new(code).tool(nap())).unwrap());
    let code = "try:\n    await f\nexcept BaseException as e: print(type(e).__name__, e.kind)";
    assert_eq!(session.run(Request::new(code)).unwrap().stdout, "ToolError cancelled\n");
    session.close();
}

#[test]
fn a_run_is_interrupted_from_outside() {
    let interrupt = Interrupt::new();
    let other = interrupt.clone();
    std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(300));
        other.interrupt();
    });
    let code = "print('so far')\nopen('a', 'w').close()\nwhile True: pass";
    let request = Request::new(code).image("core").timeout(Duration::from_mins(1));
    let outcome = run(request.interrupt(&interrupt)).outcome;
    failed(&outcome, ErrorKind::Interrupted);
    assert_eq!((outcome.stdout.as_str(), outcome.files.len()), ("so far\n", 1));
    assert_eq!(outcome.error.as_deref(), Some("Code execution was interrupted"));
    assert_eq!(outcome.error_detail.unwrap().line, Some(3));
    // The limit stays in force: later calls do not start.
    let outcome = run(Request::new("print(1)").interrupt(&interrupt)).outcome;
    failed(&outcome, ErrorKind::Interrupted);
    assert_eq!(outcome.stdout, "");
    let session = runtime().blocking().session(SessionOptions::new().image("core")).unwrap();
    let outcome = session.run(Request::new("print(1)").interrupt(&interrupt)).unwrap();
    failed(&outcome, ErrorKind::Interrupted);
    assert_eq!(session.run(Request::new("print(1)")).unwrap().stdout, "1\n");
    session.close();
}

#[test]
fn an_interrupt_reaches_a_run_that_waits_for_a_tool_and_a_sleeping_one() {
    for code in [
        "import tools\ntools.nap(60)",
        "import tools\nawait tools.nap(60)",
        "import time\ntime.sleep(60)",
    ] {
        let interrupt = Interrupt::new();
        let other = interrupt.clone();
        std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(200));
            other.interrupt();
        });
        let request = Request::new(code).image("core").tool(nap()).timeout(Duration::from_mins(1));
        let started = Instant::now();
        let outcome = run(request.interrupt(&interrupt)).outcome;
        failed(&outcome, ErrorKind::Interrupted);
        assert!(started.elapsed() < Duration::from_secs(10), "{code}");
    }
}

#[test]
fn input_asks_whoever_answers() {
    let code = "name = input('Who? ')\nprint('Hello', name)\nprint(repr(input()))\n\
                try:\n    input('more')\nexcept EOFError as e:\n    print('\\n', e, sep='')";
    let asked = Arc::new(std::sync::Mutex::new(Vec::new()));
    let seen = asked.clone();
    let request = Request::new(code).image("core").answerer(move |prompt: String| {
        seen.lock().unwrap().push(prompt.clone());
        async move {
            tokio::time::sleep(Duration::from_millis(5)).await;
            match prompt.as_str() {
                "Who? " => Some("Ada \u{e9}".into()),
                "" => Some(String::new()),
                _ => None,
            }
        }
    });
    let outcome = run(request).outcome;
    assert_eq!(
        outcome.stdout, "Who? Hello Ada é\n''\nmore\nEOF when reading a line\n",
        "{outcome:#?}"
    );
    assert_eq!(*asked.lock().unwrap(), ["Who? ", "", "more"]);
    assert!(outcome.tool_calls.is_empty());
    // Without a limit it is at the end of the standard input.
    let outcome = run(Request::new("input()").image("core")).outcome;
    assert!(outcome.error.unwrap().starts_with("EOFError"));
}

/// Answers the two calls of a run in reverse, when both wait.
async fn answered<T: Send + 'static>(mut running: Running<T>) -> T {
    let mut waiting = Vec::new();
    while let Some(turn) = running.next().await {
        match turn {
            Turn::Call(call) => waiting.push(call),
            Turn::Question(question) => question.answer(Some("Ada".into())),
            _ => {}
        }
        if waiting.len() == 2 {
            for call in waiting.drain(..).rev() {
                let n = call.arguments["n"].as_i64().unwrap();
                call.answer(10 * n);
            }
        }
    }
    running.end().await.unwrap()
}

#[test]
fn calls_of_coroutines_are_turns() {
    let code = "import asyncio, tools\n\
                async def both():\n    return await asyncio.gather(tools.ask(n=1), tools.ask(n=2))\n\
                print(asyncio.run(both()))\nprint(input('Who? '))";
    let request = || Request::new(code).tool(Tool::deferred("ask", any()));
    tokio(2).block_on(async {
        let run = answered(runtime().start(request().image("core"))).await;
        let session = runtime().session(SessionOptions::new().image("core")).await.unwrap();
        for outcome in [run.outcome, answered(session.start(request())).await] {
            succeeded(&outcome);
            assert_eq!(outcome.stdout, "[10, 20]\nWho? Ada\n");
        }
        session.close();
    });
}
