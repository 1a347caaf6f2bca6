// LibreChat's own tools, unmodified: what a model calls in a chat. BELLJAR_URL and BELLJAR_KEY say where
// the server is.
import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

const base = `${process.env.BELLJAR_URL}/librechat`;
const authHeaders = { 'X-API-Key': process.env.BELLJAR_KEY };
process.env.LIBRECHAT_CODE_BASEURL = base;

for (const version of ['agents-3.2', 'agents-3.9']) {
  const { createCodeExecutionTool, createProgrammaticToolCallingTool } = await import(version);
  const execute = createCodeExecutionTool({ authHeaders });
  const programmatic = createProgrammaticToolCallingTool({ authHeaders });

  const call = (tool, args, context = {}, config = {}) =>
    tool.invoke({ name: tool.name, args, id: 'call', type: 'tool_call', ...context }, config);

  const tools = {
    get_weather: { parameters: { type: 'object', properties: { city: { type: 'string' } }, required: ['city'] },
      invoke: async ({ city }) => ({ city, degrees: city.length }) },
    'add-up': { parameters: { type: 'object', properties: { values: { type: 'array' } } },
      invoke: async ({ values }) => values.reduce((sum, one) => sum + one, 0) },
    fail: { parameters: { type: 'object', properties: {} },
      invoke: async () => { throw new Error('the service is down'); } },
  };
  const context = {
    toolMap: new Map(Object.entries(tools).map(([name, { invoke }]) => [name, { name, invoke }])),
    toolDefs: Object.entries(tools).map(([name, { parameters }]) => (
      { name, description: `about ${name}`, parameters, allowed_callers: ['code_execution'] })),
  };
  const program = (code, more = {}) => call(programmatic, { code, ...more }, context);

  describe(version, () => {
    test('a program prints', async () => {
      const answer = await call(execute, { lang: 'py', code: 'print(6 * 7)' });
      assert.match(answer.content, /stdout:\n42(\n|$)/);
    });

    test('an exception is told with its traceback', async () => {
      const answer = await call(execute, { lang: 'py', code: '1 / 0' });
      assert.match(answer.content, /stderr:[\s\S]*ZeroDivisionError/);
    });

    test('another language is explained', async () => {
      const answer = await call(execute, { lang: 'js', code: 'console.log(1)' });
      assert.match(answer.content, /Only Python is supported/);
    });

    test('files go from one call to the next', async () => {
      const first = await call(execute, { lang: 'py',
        code: "open('/mnt/data/a.csv', 'w').write('x\\n1\\n2\\n')\nprint('written')" });
      assert.match(first.content, /1 persisted file/);
      const files = first.artifact.files.map(({ id, name, storage_session_id }) => (
        { id, name, storage_session_id, kind: 'user', resource_id: 'user' }));
      assert.equal(files[0].name, 'a.csv');
      const second = await call(execute, { lang: 'py',
        code: "import pandas as pd\nprint(pd.read_csv('a.csv').x.sum())" },
      { session_id: first.artifact.session_id, _injected_files: files });
      assert.match(second.content, /stdout:\n3(\n|$)/);
      assert.deepEqual(second.artifact.files.map(({ name, inherited }) => [name, inherited]), [['a.csv', true]]);
    });

    test('a figure is a file', async () => {
      const answer = await call(execute, { lang: 'py',
        code: "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig('figure.png')" });
      assert.match(answer.content, /1 image/);
      const [{ id, storage_session_id }] = answer.artifact.files;
      const response = await fetch(`${base}/download/${storage_session_id}/${id}`, { headers: authHeaders });
      assert.equal(response.headers.get('content-type'), 'image/png');
      assert.equal(Buffer.from(await response.arrayBuffer()).subarray(1, 4).toString(), 'PNG');
    });

    test('code awaits tools, one after the other and together', async () => {
      const answer = await program(`
sf = await get_weather(city="SF")
a, b = await asyncio.gather(get_weather(city="NY"), get_weather(city="Boston"))
total = await add_up(values=[one["degrees"] for one in (sf, a, b)])
print(sf["city"], a["degrees"], b["degrees"], total)
`);
      assert.match(answer.content, /stdout:\nSF 2 6 10(\n|$)/);
    });

    test('a loop of calls, and the libraries of the examples', async () => {
      const answer = await program(`
rows = []
for city in ("A", "BB", "CCC"):
    rows.append(await get_weather(city=city))
print(pd.DataFrame(rows).degrees.sum())
`);
      assert.match(answer.content, /stdout:\n6(\n|$)/);
    });

    test('a tool that fails raises in the code', async () => {
      const answer = await program(`
try:
    await fail()
except Exception as error:
    print("caught", error)
`);
      assert.match(answer.content, /caught the service is down/);
    });

    test('code that fails is told why', async () => {
      await assert.rejects(program('await get_weather(city="x")\nraise ValueError("no")'), (error) => {
        assert.match(error.message, /ValueError: no/);
        return true;
      });
    });

    test('code that never ends is out of time', async () => {
      await assert.rejects(program('while True: pass', { timeout: 1000 }), (error) => {
        assert.match(error.message, /ime limit/);
        return true;
      });
    });

    test('files of the program come back', async () => {
      const answer = await program('open("out.txt", "w").write(str(await add_up(values=[1, 2])))');
      const [{ id, name, storage_session_id }] = answer.artifact.files;
      assert.equal(name, 'out.txt');
      const response = await fetch(`${base}/download/${storage_session_id}/${id}`, { headers: authHeaders });
      assert.equal(await response.text(), '3');
    });
  });

  if (version === 'agents-3.9') {
    test('an abort cancels the request', async () => {
      const controller = new AbortController();
      setTimeout(() => controller.abort(), 300);
      const started = Date.now();
      await assert.rejects(call(programmatic, { code: 'await add_up(values=[])\nwhile True: pass' }, context,
        { signal: controller.signal }));
      assert.ok(Date.now() - started < 4000);
    });

    test('a hint keeps the directory', async () => {
      const stateful = createCodeExecutionTool({ authHeaders, statefulSessions: true,
        executionProfile: 'stateful', runtimeSessionHint: 'chat-1' });
      const first = await call(stateful, { lang: 'py', code: "x = 1\nopen('kept.txt', 'w').write('here')" });
      assert.equal(first.artifact.runtime_status, 'new');
      const second = await call(stateful, { lang: 'py', code: "print(open('kept.txt').read(), 'x' in globals())" });
      assert.match(second.content, /stdout:\nhere False(\n|$)/);
      assert.equal(second.artifact.runtime_status, 'reused');
      assert.equal(second.artifact.runtime_session_id, first.artifact.runtime_session_id);
    });
  }
}
