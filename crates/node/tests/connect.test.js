'use strict';

// What only a runtime does that is a server: the tests of both are in the other files.

const assert = require('node:assert/strict');
const fs = require('node:fs');
const http = require('node:http');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');
const { BelljarError, connect } = require('..');
const { isThere, runtimes } = require('./both.js');

/** A server that answers with what it is told, one answer after the other. */
async function scripted(...answers) {
  const seen = [];
  const server = http.createServer((request, response) => {
    const pieces = [];
    request.on('data', (piece) => pieces.push(piece)).on('end', () => {
      seen.push(Object.assign(request, { text: Buffer.concat(pieces).toString() }));
      const answer = answers.length > 1 ? answers.shift() : answers[0];
      if (answer === null) return request.socket.destroy();
      const [status, headers, body] = answer;
      const text = typeof body === 'string' ? body : JSON.stringify(body);
      response.writeHead(status, headers);
      // The rest of a body that is said to be longer never comes.
      if (headers['content-length'] > text.length) response.write(text);
      else response.end(text);
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  const close = (isAll) => {
    server.close();
    if (isAll) server.closeAllConnections();
  };
  return { url, seen, close };
}

const STREAM = { 'content-type': 'text/event-stream' };
const OUTCOME = 'event: outcome\ndata: {"success":true,"stdout":"1\\n","files":[],"error":null}\nid: 1\n\n';
const busy = (after) => [503, { 'retry-after': after }, { detail: 'no', code: 'busy', blame: 'machine' }];

test('the environment names the server', { skip: !isThere }, async () => {
  const before = { ...process.env };
  delete process.env.BELLJAR_URL;
  assert.throws(() => connect(), /BELLJAR_URL/);
  process.env.BELLJAR_URL = `${runtimes.served.url}/`;
  process.env.BELLJAR_KEY = runtimes.served.key;
  try {
    assert.equal((await connect().run('print(1)', { image: 'core' })).stdout, '1\n');
  } finally {
    process.env = before;
  }
});

test('wrong options are named', () => {
  for (const url of ['example.org', 'ftp://example.org', 'https://me:secret@example.org', 'http://a/?b']) {
    assert.throws(() => connect({ url }), { code: 'argument' }, url);
  }
  assert.throws(() => connect({ url: 'http://a', timeout: 0 }), { code: 'argument' });
  assert.throws(() => connect({ url: 'http://a', retrys: 1 }), /retrys/);
});

test('a wrong key and no server are told apart', { skip: !isThere }, async () => {
  const wrong = connect({ ...runtimes.served, key: 'belljar_wrong' });
  await assert.rejects(wrong.run('1'), { name: 'BelljarError', code: 'no_key' });
  const { url, close } = await scripted([200, {}, '']);
  close();
  await assert.rejects(connect({ url, retries: 1 }).run('1'), { code: 'server.unreachable' });
});

test('a busy server is asked again', async () => {
  const server = await scripted(busy('0'), busy('0'), [200, STREAM, OUTCOME]);
  assert.equal((await connect({ url: server.url }).run('print(1)')).stdout, '1\n');
  assert.equal(server.seen.length, 3);
  server.close();
  const late = await scripted(busy('3600'));
  await assert.rejects(connect({ url: late.url }).run('1'), { code: 'busy' });
  assert.equal(late.seen.length, 1);
  late.close();
});

test('what is made is made once, and a session’s run is the same when it is sent again', async () => {
  const made = [201, {}, { id: '0123' }];
  const server = await scripted(null, made, null, [200, STREAM, OUTCOME]);
  const session = await connect({ url: server.url }).session();
  const keys = new Set(server.seen.map((request) => request.headers['idempotency-key']));
  assert.deepEqual([server.seen.length, keys.size], [2, 1]);
  assert.equal((await session.run('x += 1')).stdout, '1\n');
  assert.equal(server.seen.length, 4);
  const { stream } = JSON.parse(server.seen[2].text);
  assert.ok(stream.length >= 16);
  assert.equal(server.seen[3].url, `/v1/streams/${stream}`);
  server.close();
});

test('what the server does not know is sent again, and what it forgot is not', async () => {
  const problem = (status, code) => [status, {}, { detail: 'no', code, blame: 'caller' }];
  const unknown = problem(404, 'stream.not_found');
  const fresh = await scripted(null, unknown, [200, STREAM, OUTCOME]);
  assert.equal((await connect({ url: fresh.url }).run('1')).stdout, '1\n');
  assert.deepEqual(fresh.seen.map((request) => request.method), ['POST', 'GET', 'POST']);
  fresh.close();
  const gone = await scripted(null, problem(410, 'stream.gone'), [200, STREAM, OUTCOME]);
  await assert.rejects(connect({ url: gone.url }).run('1'), { code: 'stream.gone' });
  gone.close();
  const once = await scripted([200, STREAM, OUTCOME.replace('id: 1\n', '')]);
  assert.equal((await connect({ url: once.url, retries: 0 }).run('1')).stdout, '1\n');
  assert.equal(JSON.parse(once.seen[0].text).stream, undefined);
  once.close();
});

test('a creation that stays under way is given up', async () => {
  const underWay = [409, {}, { detail: 'wait', code: 'idempotency_key', blame: 'caller' }];
  const server = await scripted([201, {}, { id: '0123' }], underWay);
  const session = await connect({ url: server.url, timeout: 0.5, retries: 0 }).session();
  await assert.rejects(session.fork(), { code: 'idempotency_key' });
  assert.ok(server.seen.length > 2);
  server.close();
});

test('a stream that breaks off is an error', async () => {
  const server = await scripted([200, STREAM, 'event: run\ndata: {"id":"1"}\nid: 1\n\n']);
  await assert.rejects(connect({ url: server.url }).run('1'), { code: 'server.lost' });
  server.close();
});

/** Passes on so many bytes of each answer of a server, more with each connection, and cuts it. */
async function cutting(url, first) {
  const { hostname, port } = new URL(url);
  let count = 0;
  const proxy = net.createServer((client) => {
    let left = first + 400 * count++;
    const upstream = net.connect(port, hostname);
    const end = () => {
      client.destroy();
      upstream.destroy();
    };
    client.on('data', (piece) => upstream.write(piece)).on('error', end).on('close', end);
    upstream.on('data', (piece) => {
      if (left > piece.length) client.write(piece);
      else client.end(piece.subarray(0, left), end);
      left -= piece.length;
    });
    upstream.on('error', end).on('close', end);
  });
  await new Promise((resolve) => proxy.listen(0, '127.0.0.1', resolve));
  return { url: `http://127.0.0.1:${proxy.address().port}`, close: () => proxy.close() };
}

test('a broken connection is resumed', { skip: !isThere }, async () => {
  const code = 'import tools\nfor n in range(4):\n    print(n, flush=True)\n    tools.twice(n=n)';
  for (const first of [0, 50, 200, 350, 500, 650, 800, 1000, 1300, 1700, 2200]) {
    const proxy = await cutting(runtimes.served.url, first);
    const server = connect({ url: proxy.url, key: runtimes.served.key, retries: 8 });
    const calls = [];
    const events = [];
    const session = await server.session({
      image: 'core',
      tools: { twice: ({ n }) => calls.push(n) },
    });
    const outcome = await session.run(code, { onEvent: (event) => events.push(event) });
    const text = events.map((event) => (event.type === 'stdout' ? event.text : ''));
    assert.deepEqual([outcome.stdout, text.join('')], Array(2).fill('0\n1\n2\n3\n'), String(first));
    assert.deepEqual(calls, [0, 1, 2, 3]);
    assert.equal(events.filter((event) => event.type === 'ended').length, 1);
    proxy.close();
  }
});

test('a silent server', async () => {
  const server = http.createServer(() => undefined);
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  await assert.rejects(connect({ url, timeout: 0.2 }).run('1'), { code: 'server.timeout' });
  server.closeAllConnections();
  server.close();
});

test('a body that is not whole is an error of the client', async () => {
  const made = [201, {}, { id: '0123' }];
  const half = [200, { 'content-length': 100 }, 'half'];
  const server = await scripted(made, half);
  const { url } = server;
  const session = await connect({ url, timeout: 0.2, retries: 0 }).session();
  await assert.rejects(session.files.read('x'), { name: 'BelljarError', code: 'server.timeout' });
  server.close(true);
  const page = await scripted([200, {}, '<html>sign in</html>']);
  await assert.rejects(connect({ url: page.url }).check('1'), { code: 'server.answer' });
  page.close();
});

test('a half checkpoint is not kept', async () => {
  const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'belljar-'));
  const server = await scripted([201, {}, { id: '0123' }], [200, { 'content-length': 100 }, 'half']);
  const session = await connect({ url: server.url }).session();
  setTimeout(() => server.close(true), 300);
  await assert.rejects(session.checkpoint(path.join(dir, 'c')), { code: 'server.lost' });
  assert.deepEqual(fs.readdirSync(dir), []);
  fs.rmdirSync(dir);
});

test('a redirection is not followed', async () => {
  const other = await scripted([200, {}, '{}']);
  for (const status of [301, 302, 307]) {
    const server = await scripted([status, { location: other.url }, 'moved']);
    await assert.rejects(connect({ url: server.url }).check('1'), { code: 'server.answer' });
    server.close();
  }
  assert.equal(other.seen.length, 0);
  other.close();
});

test('errors show no key', async () => {
  const url = 'http://127.0.0.1:1';
  const isHidden = (error) => error.code === 'argument' && !error.message.includes('secret');
  assert.throws(() => connect({ url, key: 'belljar_\nsecret' }), isHidden);
  assert.throws(() => connect({ url: 'https://secret@example.org' }), isHidden);
});

test('a call of a tool that nobody has ends nothing', async () => {
  const call = 'event: call\ndata: {"id":"1","name":"x","arguments":{}}\n\n';
  const server = await scripted([200, STREAM, call + OUTCOME]);
  assert.equal((await connect({ url: server.url, retries: 0 }).run('1')).stdout, '1\n');
  // A rejection that nobody handles would end the process.
  await new Promise(setImmediate);
  server.close();
});

test('calls that the server makes up are refused, and counted', async () => {
  const answers = [];
  const events = [
    ['price', { item: 'tea' }],
    ['__proto__', {}],
    ['constructor', {}],
    ['price', []],
    ['price', null],
    ['price', { item: 'x'.repeat(2000) }],
    ['price', { item: 'milk' }],
    ['price', { item: 'too many' }],
  ].map(([name, given], id) => `event: call\ndata: ${JSON.stringify({ id, name, arguments: given })}\n\n`);
  const server = http.createServer((request, response) => {
    let body = '';
    request.on('data', (piece) => (body += piece));
    request.on('end', () => {
      if (!request.url.startsWith('/v1/calls/')) {
        response.writeHead(200, STREAM);
        response.write(events.join(''));
        return setTimeout(() => response.end(OUTCOME), 300);
      }
      answers[request.url.split('/').at(-1)] = JSON.parse(body);
      return response.end('{}');
    });
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const asked = [];
  const tools = { price: ({ item }) => asked.push(item) };
  const limits = { calls: 2, argument_bytes: 1000 };
  const url = `http://127.0.0.1:${server.address().port}`;
  await connect({ url, retries: 0 }).run('1', { tools, tool_limits: limits });
  assert.deepEqual(asked, ['tea', 'milk']);
  assert.deepEqual(
    answers.map(({ answer, error }) => answer ?? error.split(' ').slice(0, 4).join(' ')),
    [1, 'there is no such', 'there is no such', 'the arguments are no', 'the arguments are no', 'the arguments have 2011', 2, 'the run has used']
  );
  server.close();
});

test('an answer without an end takes no memory', async () => {
  const server = http.createServer((request, response) => {
    request.resume();
    const piece = Buffer.alloc(1 << 16, 'x');
    response.writeHead(request.url === '/v1/check' ? 500 : 200, STREAM);
    const send = () => {
      while (response.write(piece));
      response.once('drain', send);
    };
    send();
  });
  await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${server.address().port}`;
  await assert.rejects(connect({ url }).check('1'), { code: 'server.answer' });
  await assert.rejects(connect({ url }).run('1'), { code: 'server.answer' });
  server.close();
  server.closeAllConnections();
});

test('a server locks itself down', { skip: !isThere }, () => {
  assert.throws(() => runtimes.server.lockdown(), { code: 'server.unsupported' });
});

test('paths stay in their session', { skip: !isThere }, async () => {
  const session = await runtimes.server.session({ image: 'core' });
  await assert.rejects(session.files.read('../../../images'), BelljarError);
  session.close();
  await assert.rejects(session.run('1'), { code: 'session.not_found' });
});
