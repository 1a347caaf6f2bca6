'use strict';

const assert = require('node:assert/strict');
const { setTimeout: sleep } = require('node:timers/promises');
const { BelljarError, EventStream, RunError, Runtime, Session, ToolError } = require('..');
const { both } = require('./both.js');

let runtime;
const test = both((one) => {
  runtime = one;
});

test('a run gives its outcome, frozen', async () => {
  const outcome = await runtime.run('print("a"); result = {"x": [1, 2.5, None]}');
  assert.equal(outcome.success, true);
  assert.equal(outcome.stdout, 'a\n');
  assert.deepEqual(outcome.result, { x: [1, 2.5, null] });
  assert.throws(() => {
    outcome.result.x.push(1);
  }, TypeError);
});

test('what the code does wrong is in the outcome', async () => {
  const outcome = await runtime.run('1 / 0');
  assert.equal(outcome.success, false);
  assert.equal(outcome.error_detail.kind, 'exception');
  assert.equal(outcome.error_detail.type, 'ZeroDivisionError');
  assert.throws(
    () => outcome.raiseForError(),
    (error) => {
      assert.ok(error instanceof RunError);
      assert.equal(error.message, 'ZeroDivisionError: division by zero');
      assert.equal(error.outcome, outcome);
      return true;
    }
  );
  const fine = await runtime.run('1');
  assert.equal(fine.raiseForError(), fine);
});

test('options are those of the request, and files go in and come out as bytes', async () => {
  const outcome = await runtime.run(
    'import os, sys\nopen("b", "wb").write(open("a", "rb").read()[::-1])\n' +
      'print(open("t").read(), os.environ["E"], sys.argv[1], n)',
    {
      files: { a: Buffer.from([0, 1, 255]), t: 'text' },
      env: { E: 'e' },
      args: ['x'],
      set: { n: 2n ** 70n },
    }
  );
  assert.equal(outcome.stdout, `text e x ${2n ** 70n}\n`);
  assert.deepEqual(await outcome.read('b'), Buffer.from([255, 1, 0]));
  await assert.rejects(outcome.read('c'), (error) => {
    assert.ok(error instanceof BelljarError);
    assert.equal(error.blame, 'caller');
    return true;
  });
});

test('errors say what was wrong', async () => {
  await assert.rejects(runtime.run('', { timeout: -1 }), (error) => {
    assert.ok(error instanceof BelljarError && error instanceof Error);
    assert.equal(error.name, 'BelljarError');
    assert.equal(typeof error.code, 'string');
    assert.equal(error.blame, 'caller');
    return true;
  });
  await assert.rejects(runtime.run('', { no_such_option: 1 }), /no_such_option/);
  await assert.rejects(runtime.run(1), { code: 'argument' });
  await assert.rejects(runtime.run('', null), { code: 'argument' });
  await assert.rejects(runtime.run('', { image: 'none-such' }), (error) => {
    assert.match(error.message, /none-such/);
    return true;
  });
  await assert.rejects(Runtime.start({ wrong: 1 }), /wrong/);
  assert.throws(() => new Runtime(), { code: 'argument' });
  assert.throws(() => new Session(), { code: 'argument' });
});

test('events come in order, and end with the run', async () => {
  const events = [];
  const stream = runtime.stream('import sys\nprint("a")\nprint("b", file=sys.stderr)\nprint("c")');
  assert.ok(stream instanceof EventStream);
  for await (const event of stream) events.push(event);
  assert.equal(events[0].type, 'started');
  assert.equal(events.at(-1).type, 'ended');
  const texts = events.filter((event) => event.text?.trim());
  assert.deepEqual(texts.map(({ type, text }) => [type, text.trim()]), [
    ['stdout', 'a'],
    ['stderr', 'b'],
    ['stdout', 'c'],
  ]);
  assert.equal((await stream.outcome).stdout, 'a\nc\n');
});

const SLOW = 'a server drops events of a client that reads nothing for a second';

test('many events come all', { here: SLOW }, async () => {
  let count = 0;
  for await (const event of runtime.stream('for k in range(5000): print(k, flush=True)')) {
    if (event.type === 'stdout') count += event.text.split('\n').length - 1;
  }
  assert.equal(count, 5000);
});

test('a short run has told all when it is over', async () => {
  for (let n = 0; n < 100; n++) {
    const types = [];
    await runtime.run('print(1)', { onEvent: (event) => types.push(event.type) });
    assert.equal(types.at(-1), 'ended', types.join(' '));
  }
});

test('events come while the code runs', async () => {
  const stream = runtime.stream('import time\nprint(1)\ntime.sleep(1)');
  const begun = performance.now();
  for await (const event of stream) {
    if (event.type === 'stdout') break;
  }
  assert.ok(performance.now() - begun < 900);
  // Leaving the loop has interrupted the run.
  assert.equal((await stream.outcome).error_detail.kind, 'interrupted');
});

test('a stream whose run cannot begin rejects once', async () => {
  const stream = runtime.stream('', { timeout: -1 });
  await assert.rejects(stream.next(), BelljarError);
  assert.deepEqual(await stream.next(), { done: true, value: undefined });
  await assert.rejects(stream.outcome, BelljarError);
});

test('a function for events that throws interrupts the run', async () => {
  const mine = new Error('mine');
  const begun = performance.now();
  await assert.rejects(
    runtime.run('print(1)\nwhile True: pass', {
      timeout: 30,
      onEvent: (event) => {
        if (event.type === 'stdout') throw mine;
      },
    }),
    mine
  );
  assert.ok(performance.now() - begun < 10_000);
});

test('a signal interrupts, before and during', async () => {
  const ended = await runtime.run('while True: pass', { signal: AbortSignal.abort() });
  assert.equal(ended.error_detail.kind, 'interrupted');
  const outcome = await runtime.run('print(1, flush=True)\nwhile True: pass', {
    signal: AbortSignal.timeout(300),
    timeout: 30,
  });
  assert.equal(outcome.error_detail.kind, 'interrupted');
  assert.equal(outcome.stdout, '1\n');
  await assert.rejects(runtime.run('', { signal: 1 }), { code: 'argument' });
});

test('a row of short runs leaves the event loop its turns', async () => {
  let turns = 0;
  const ticking = setInterval(() => turns++, 1);
  for (let k = 0; k < 50; k++) await runtime.run('1', { image: 'core' });
  clearInterval(ticking);
  assert.ok(turns >= 5, `${turns} turns`);
});

test('the event loop goes on while code runs', async () => {
  let ticks = 0;
  const timer = setInterval(() => {
    ticks += 1;
  }, 10);
  await Promise.all([1, 2].map(() => runtime.run('import time; time.sleep(0.5)')));
  clearInterval(timer);
  assert.ok(ticks >= 20, `${ticks} ticks`);
});

test('tools are functions, called and awaited', async () => {
  const tools = {
    add: {
      description: 'Adds.',
      parameters: {
        type: 'object',
        properties: { a: { type: 'number' }, b: { type: 'number' } },
        required: ['a', 'b'],
      },
      run: ({ a, b }) => a + b,
    },
    later: async ({ value }) => {
      await sleep(20);
      return { value };
    },
    nothing: () => {},
  };
  const outcome = await runtime.run(
    'import tools\nresult = [tools.add(a=1, b=2), tools.later(value="x"), tools.nothing()]',
    { tools }
  );
  assert.equal(outcome.error, null);
  assert.deepEqual(outcome.result, [3, { value: 'x' }, null]);
  assert.deepEqual(outcome.tool_calls.map((call) => call.name), ['add', 'later', 'nothing']);
});

test('ten tools are awaited at once', async () => {
  const begun = performance.now();
  const outcome = await runtime.run(
    'import asyncio, tools\n' +
      'async def main():\n    return await asyncio.gather(*(tools.wait(n=k) for k in range(10)))\n' +
      'result = asyncio.run(main())',
    {
      tools: {
        wait: async ({ n }) => {
          await sleep(200);
          return n;
        },
      },
    }
  );
  assert.deepEqual(outcome.result, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
  assert.ok(performance.now() - begun < 1500);
});

test('what a tool throws is the code’s only where it says so', async () => {
  const warnings = [];
  const listen = (warning) => warnings.push(warning);
  process.on('warning', listen);
  const outcome = await runtime.run(
    'import tools\nresult = []\n' +
      'for call in (tools.told, tools.kept, tools.rejected, tools.strange, tools.circle):\n' +
      '    try: call()\n' +
      '    except tools.ToolError as error: result.append(error.message)',
    {
      tools: {
        told: () => {
          throw new ToolError('no such thing');
        },
        kept: () => {
          throw new RangeError('the password is x');
        },
        rejected: () => Promise.reject(new TypeError('secret')),
        strange: () => Promise.reject('text'),
        circle: () => {
          const circle = {};
          circle.self = circle;
          return circle;
        },
      },
    }
  );
  await sleep(10);
  process.off('warning', listen);
  assert.deepEqual(outcome.result, [
    'no such thing',
    'RangeError',
    'TypeError',
    'string',
    'TypeError',
  ]);
  assert.equal(warnings.length, 4);
  assert.match(warnings[0].message, /kept failed: RangeError: the password/);
});

test('a tool that never answers ends with the run', async () => {
  const outcome = await runtime.run('import tools\ntools.never()', {
    tools: { never: () => new Promise(() => {}) },
    timeout: 0.5,
  });
  assert.equal(outcome.success, false);
});

test('tools that cannot be used are refused', async () => {
  await assert.rejects(runtime.run('', { tools: { x: 1 } }), { code: 'argument' });
  await assert.rejects(runtime.run('', { tools: { 'no name': () => 1 } }), BelljarError);
  await assert.rejects(
    runtime.run('', { tools: { x: { run: () => 1, parameters: { type: 'nothing' } } } }),
    BelljarError
  );
});

test('code is checked without a run', async () => {
  const report = await runtime.check('import os\nopen("x")', 'strict');
  assert.equal(report.clean, false);
  assert.ok(report.violations.length > 0);
  assert.equal((await runtime.check('1 + 1')).clean, true);
});
