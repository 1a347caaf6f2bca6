'use strict';

const assert = require('node:assert/strict');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { BelljarError } = require('..');
const { both } = require('./both.js');

let runtime;
const test = both((one) => {
  runtime = one;
});

test('a session keeps its state, forks and goes back', async () => {
  const session = await runtime.session({ code: 'x = 1' });
  assert.equal((await session.run('x += 1; print(x)')).stdout, '2\n');
  const fork = await session.fork();
  assert.notEqual(fork.id, session.id);
  await fork.run('x = 10');
  assert.equal(await session.get('x'), 2);
  assert.equal(await fork.get('x'), 10);
  await session.run('x = 99');
  await session.rewind(1);
  assert.equal(await session.get('x'), 2);
  await assert.rejects(session.rewind(77), BelljarError);
  await assert.rejects(session.rewind(-1), { code: 'argument' });
  fork.close();
  await assert.rejects(fork.run('1'), BelljarError);
  session.close();
});

test('a timeout of null leaves the ceiling, undefined the default', async () => {
  const session = await runtime.session({ timeout: 0.2 });
  const nap = 'import time; time.sleep(0.6)';
  assert.equal((await session.run(nap, { timeout: undefined })).error_detail.kind, 'timeout');
  assert.equal((await session.run(nap, { timeout: null })).error, null);
  await assert.rejects(session.run(nap, { timeout: NaN }), /timeout/);
  session.close();
  const unlimited = await runtime.session({ timeout: null });
  assert.equal((await unlimited.run('import time; time.sleep(5.2)')).error, null);
  unlimited.close();
});

test('values go in and come out', async () => {
  const session = await runtime.session();
  const values = {
    none: null,
    flag: true,
    text: 'é\ud83d\ude00',
    number: 1.5,
    whole: -3,
    big: -(2n ** 80n),
    bytes: Buffer.from([0, 255]),
    list: [1, [2, 'x']],
    object: { a: { b: NaN }, '': Infinity },
    set: new Set([1, 'a']),
    map: new Map([[1, 'one'], [null, 'none']]),
  };
  for (const [name, value] of Object.entries(values)) {
    await session.set(name, value);
    assert.deepEqual(await session.get(name), value, name);
  }
  await session.set('day', new Date(Date.UTC(2024, 1, 29, 12)));
  await session.run('kinds = [type(v).__name__ for v in (big, bytes, set, map, day)]; t = (1, 2)');
  assert.deepEqual(await session.get('kinds'), ['int', 'bytes', 'set', 'dict', 'datetime']);
  assert.deepEqual(await session.get('t'), [1, 2]);
  assert.equal(await session.get('no_such_name'), undefined);
  assert.equal((await session.get('day')).$, 'datetime');
  await assert.rejects(session.set('f', () => 1), { code: 'argument' });
  const circle = [];
  circle.push(circle);
  await assert.rejects(session.set('c', circle), { code: 'argument' });
  session.close();
});

test('files are there without a run', async () => {
  const session = await runtime.session();
  await session.files.write('d/a.txt', 'text');
  await session.files.write('b', new Uint8Array([1, 2]));
  assert.equal((await session.run('print(open("d/a.txt").read())')).stdout, 'text\n');
  assert.deepEqual(await session.files.read('b'), Buffer.from([1, 2]));
  await session.files.makeDir('e');
  await session.files.rename('b', 'e/c');
  const entries = await session.files.list('', { depth: 2 });
  assert.deepEqual(
    entries.map(({ path, kind, size }) => [path, kind, size]),
    [['d', 'directory', 0], ['d/a.txt', 'file', 4], ['e', 'directory', 0], ['e/c', 'file', 2]]
  );
  assert.ok(entries[1].modified instanceof Date);
  await session.files.remove('d');
  await assert.rejects(session.files.read('d/a.txt'), BelljarError);
  await assert.rejects(session.files.write('../x', 'y'), BelljarError);
  await assert.rejects(session.files.write('x', 1), { code: 'argument' });
  const outcome = await session.run('open("left", "w").write("l")');
  assert.equal((await outcome.read('left')).toString(), 'l');
  session.close();
});

test('a checkpoint is restored, with tools', async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'belljar-node-'));
  const file = path.join(directory, 'checkpoint');
  try {
    const session = await runtime.session({ tools: { who: () => 'first' } });
    await session.run('import tools; x = tools.who()');
    await session.checkpoint(file);
    session.close();
    const restored = await runtime.restore(file, { tools: { who: async () => 'second' } });
    assert.equal((await restored.run('print(x, tools.who())')).stdout, 'first second\n');
    restored.close();
    const bounded = await runtime.restore(file, { lifetime: 600, policy: 'strict' });
    assert.equal((await bounded.run('import os')).error_detail.kind, 'policy');
    bounded.close();
    const spent = await runtime.restore(file, { fuel_total: 1 });
    assert.match((await spent.run('print(x)')).error, /all of its fuel/);
    spent.close();
    await assert.rejects(runtime.restore(file, { lifetim: 1 }), /unknown field `lifetim`/);
    await assert.rejects(runtime.restore(path.join(directory, 'none')), BelljarError);
  } finally {
    fs.rmSync(directory, { recursive: true });
  }
});

test('a restored session has its id and lease', { here: 'a server takes neither' }, async () => {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), 'belljar-node-'));
  const file = path.join(directory, 'checkpoint');
  try {
    const session = await runtime.session();
    await session.checkpoint(file);
    session.close();
    const bounds = { id: 'chosen', lease: { seconds: 60, then: 'suspend' } };
    const restored = await runtime.restore(file, bounds);
    assert.equal(restored.id, 'chosen');
    restored.close();
  } finally {
    fs.rmSync(directory, { recursive: true });
  }
});

test('a run is interrupted, and the session goes on', async () => {
  const session = await runtime.session({ timeout: 30 });
  assert.equal(session.interrupt(), false);
  const stream = session.stream('x = 1\nprint(x)\nwhile True: pass');
  for await (const event of stream) {
    if (event.type === 'stdout') assert.equal(session.interrupt(), true);
  }
  assert.equal((await stream.outcome).error_detail.kind, 'interrupted');
  assert.equal(await session.get('x'), 1);
  session.close();
});

test('runs of a session wait for each other', async () => {
  const session = await runtime.session({ code: 'n = 0' });
  await Promise.all(Array.from({ length: 20 }, () => session.run('n += 1')));
  assert.equal(await session.get('n'), 20);
  await assert.rejects(session.run('', { tools: {} }), { code: 'argument' });
  session.close();
});
