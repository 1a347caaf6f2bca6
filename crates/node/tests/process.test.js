'use strict';

// The process: exit, worker threads, memory, type declarations.

const assert = require('node:assert/strict');
const { execFile } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');
const { test } = require('node:test');
const { promisify } = require('node:util');
const { Worker } = require('node:worker_threads');

const root = path.join(__dirname, '..');
const packed = JSON.stringify(root);

/**
 * Runs a program in a new process and returns its output. Fails on another exit status or a
 * timeout.
 */
async function printed(code, ...flags) {
  const program = `const { Runtime } = require(${packed});\n(async () => {${code}})();`;
  const ran = promisify(execFile)(process.execPath, [...flags, '-e', program], { timeout: 60_000 });
  return (await ran).stdout.trim();
}

test('a session that lives keeps no process from its end', async () => {
  const code =
    'const r = await Runtime.start(); const s = await r.session({ tools: { f: () => 1 } });' +
    'await s.run("import tools; x = tools.f()"); console.log(await s.get("x"));';
  assert.equal(await printed(code), '1');
});

test('a process ends while code runs', async () => {
  const code =
    'const r = await Runtime.start(); r.run("while True: pass", { timeout: 60 });' +
    'for await (const e of r.stream("print(1)\\nwhile True: pass", { timeout: 60 }))' +
    '  if (e.type === "stdout") { console.log("out"); process.exit(0); }';
  const begun = performance.now();
  assert.equal(await printed(code), 'out');
  assert.ok(performance.now() - begun < 30_000);
});

test('a run keeps its process alive', async () => {
  const code =
    'const r = await Runtime.start();' +
    'r.run("import time; time.sleep(0.3); print(1)").then((o) => console.log(o.stdout));';
  assert.equal(await printed(code), '1');
});

test('an error that nobody catches ends the process as any other does', async () => {
  const code = 'const r = await Runtime.start(); r.run("", { timeout: -1 });';
  await assert.rejects(printed(code), (error) => {
    assert.match(error.stderr, /BelljarError/);
    assert.equal(error.code, 1);
    return true;
  });
});

test('threads have runtimes of their own, and may be ended while code runs', async () => {
  const program = `
    const { parentPort } = require('node:worker_threads');
    const { Runtime } = require(${packed});
    (async () => {
      const runtime = await Runtime.start();
      const tools = { f: async () => 2 };
      const outcome = await runtime.run('import tools; print(tools.f())', { tools });
      parentPort.postMessage(outcome.stdout);
      const session = await runtime.session();
      session.run('while True: pass', { timeout: 60 });
      parentPort.postMessage('runs');
    })();`;
  const workers = [1, 2].map(() => new Worker(program, { eval: true }));
  await Promise.all(
    workers.map(async (worker) => {
      const heard = [];
      await new Promise((resolve, reject) => {
        worker.on('error', reject);
        worker.on('message', (message) => {
          heard.push(message);
          if (message === 'runs') resolve();
        });
      });
      assert.deepEqual(heard, ['2\n', 'runs']);
      await worker.terminate();
    })
  );
  const { Runtime } = require('..');
  const outcome = await (await Runtime.start()).run('print(3)');
  assert.equal(outcome.stdout, '3\n');
});

test('what is not held any more is given back', async () => {
  const code = `
    const r = await Runtime.start();
    const rss = () => { gc(); return process.memoryUsage().rss; };
    const turn = async () => {
      const s = await r.session({ tools: { f: () => 1 } });
      await s.run("x = bytes(1 << 20)");
      await (await s.fork()).close();
      s.close();
      (await r.run("open('a', 'w').write('b')")).read('a');
    };
    for (let k = 0; k < 20; k++) await turn();
    const before = rss();
    for (let k = 0; k < 60; k++) await turn();
    console.log(Math.round((rss() - before) / 2 ** 20));`;
  const grown = Number(await printed(code, '--expose-gc'));
  assert.ok(grown < 100, `${grown} MiB more`);
});

test('options and outcomes are typed as their schemas say', () => {
  const types = fs.readFileSync(path.join(root, 'index.d.ts'), 'utf8');
  const own = { request: ['code', 'answers', 'tools'], outcome: [] };
  for (const [name, kind] of [['request', 'RunOptions'], ['outcome', 'Outcome']]) {
    const file = path.join(root, '..', '..', 'docs', 'schema', `${name}.schema.json`);
    const { properties } = JSON.parse(fs.readFileSync(file, 'utf8'));
    const body = types.match(new RegExp(`interface ${kind} [^{]*\\{([^]*?)\\n\\}`))[1];
    for (const property of Object.keys(properties)) {
      if (own[name].includes(property)) continue;
      assert.match(body, new RegExp(`^  (readonly )?${property}\\??:`, 'm'), `${kind}.${property}`);
    }
  }
});

test('the types hold for the example', async (context) => {
  let compiler;
  try {
    compiler = require.resolve('typescript/bin/tsc');
  } catch {
    if (process.env.BELLJAR_TEST_NO_SKIPS) throw new Error('typescript is not installed');
    context.skip('typescript is not installed: npm ci');
    return;
  }
  await promisify(execFile)(process.execPath, [compiler, '--project', root], { cwd: root });
});

test('the example runs', async () => {
  const example = path.join(root, 'examples', 'sessions.mjs');
  const { stdout } = await promisify(execFile)(process.execPath, [example], { timeout: 60_000 });
  assert.match(stdout, /the mean is 2\.5/);
});

test('a process that is locked down still runs code', async () => {
  const program = (lock) => `
    const fs = require('node:fs');
    const r = await Runtime.start();
    const report = ${lock ? "r.lockdown({ read: ['/usr/share/zoneinfo'] })" : 'null'};
    let reads = true;
    try { fs.readFileSync('/etc/passwd'); } catch { reads = false; }
    const { stdout } = await r.run('print(6 * 7)');
    console.log(JSON.stringify({ report, reads, stdout }));`;
  assert.deepEqual(JSON.parse(await printed(program(false))), {
    report: null,
    reads: true,
    stdout: '42\n',
  });
  const { report, reads, stdout } = JSON.parse(await printed(program(true)));
  assert.equal(stdout, '42\n');
  assert.equal(report.whole, report.failures.length === 0);
  assert.equal(reads, report.landlock === null);
});

test('the addon has no hook for escapes', async () => {
  const code =
    'await Runtime.start(); console.log(JSON.stringify(process.report.getReport().sharedObjects));';
  const addon = JSON.parse(await printed(code)).filter((file) => /belljar[^/]*$/.test(file));
  assert.equal(addon.length, 1);
  const hook = 'belljar was built with the hook of the escape tests';
  assert.ok(!fs.readFileSync(addon[0]).includes(hook));
});
