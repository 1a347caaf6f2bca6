// E2B's face, with E2B's own SDK for JavaScript, unmodified. The server is named by E2B_API_URL,
// E2B_SANDBOX_URL and E2B_API_KEY.

import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { NotFoundError, Sandbox, TimeoutError } from '@e2b/code-interpreter'

let sandbox

before(async () => {
  sandbox = await Sandbox.create({ metadata: { who: 'js & co' }, envs: { FOO: 'bar' } })
})

after(async () => {
  await sandbox.kill()
})

test('code runs and keeps its state', async () => {
  await sandbox.runCode('x = 20')
  const execution = await sandbox.runCode("print('ž😀')\nx + 1")
  assert.equal(execution.text, '21')
  assert.deepEqual(execution.logs.stdout, ['ž😀\n'])
  assert.equal(execution.executionCount, 2)
})

test('results come in their forms', async () => {
  const { results } = await sandbox.runCode(
    "import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()\n" +
      "import pandas as pd\npd.DataFrame({'a': [1, 2]})"
  )
  assert.match(results[0].png, /^iVBOR/)
  assert.equal(results[0].chart.type, 'line')
  assert.equal(results[0].isMainResult, false)
  assert.deepEqual(results[1].data, { a: [1, 2] })
  assert.equal(results[1].isMainResult, true)
})

test('errors have a name, a value and a traceback', async () => {
  const { error } = await sandbox.runCode('1 / 0')
  assert.equal(error.name, 'ZeroDivisionError')
  assert.equal(error.value, 'division by zero')
  assert.match(error.traceback, /1 \/ 0/)
})

test('output streams', async () => {
  const lines = []
  await sandbox.runCode('import sys\nprint(1)\nprint(2, file=sys.stderr)', {
    onStdout: (message) => lines.push(['out', message.line]),
    onStderr: (message) => lines.push(['err', message.line]),
  })
  assert.deepEqual(lines, [['out', '1\n'], ['err', '2\n']])
})

test('environments are of a sandbox and of one execution', async () => {
  const read = "import os; os.getenv('FOO')"
  assert.equal((await sandbox.runCode(read, { envs: { FOO: 'baz' } })).text, 'baz')
  assert.equal((await sandbox.runCode(read)).text, 'bar')
})

test('contexts share files and nothing else', async () => {
  const context = await sandbox.createCodeContext({ cwd: '/home/user' })
  await sandbox.runCode("y = 1; open('shared', 'w').write('s'); None", { context })
  assert.equal((await sandbox.runCode("open('shared').read()")).text, 's')
  assert.equal((await sandbox.runCode('y')).error.name, 'NameError')
  assert.equal((await sandbox.listCodeContexts()).length, 2)
  await sandbox.restartCodeContext(context)
  await sandbox.removeCodeContext(context)
  await assert.rejects(sandbox.runCode('1', { context }), NotFoundError)
})

test('files are written, listed, read and removed', async () => {
  const { files } = sandbox
  await files.write('d/a.txt', 'Ada')
  await files.write('d/b.bin', new Uint8Array([0, 255, 10]).buffer)
  await files.write([{ path: 'd/c', data: 'C' }, { path: 'd/ž', data: 'Z' }])
  assert.equal(await files.read('/home/user/d/a.txt'), 'Ada')
  assert.deepEqual(await files.read('d/b.bin', { format: 'bytes' }), new Uint8Array([0, 255, 10]))
  assert.deepEqual((await files.list('d')).map((entry) => entry.name), ['a.txt', 'b.bin', 'c', 'ž'])
  assert.equal((await files.getInfo('d/a.txt')).size, 3)
  assert.equal(await files.makeDir('d'), false)
  assert.equal((await files.rename('d/c', 'e')).path, '/home/user/e')
  await files.remove('d')
  assert.equal(await files.exists('d'), false)
  await assert.rejects(files.read('d/a.txt'), NotFoundError)
  assert.equal(await (await fetch(await sandbox.downloadUrl('e'))).text(), 'C')
})

test('temporary files are files like others', async () => {
  const { files } = sandbox
  assert.equal((await files.write('/tmp/d/a', 'A')).path, '/tmp/d/a')
  assert.equal(await files.read('/tmp/d/a'), 'A')
  assert.equal((await sandbox.runCode("open('/tmp/d/a').read()")).text, 'A')
  assert.equal((await files.rename('/tmp/d/a', '/tmp/b')).path, '/tmp/b')
  assert.deepEqual((await files.list('/tmp')).map((entry) => entry.path), ['/tmp/b', '/tmp/d'])
  assert.equal((await sandbox.commands.run('cat b', { cwd: '/tmp' })).stdout.trim(), 'A')
  const context = await sandbox.createCodeContext({ cwd: '/tmp' })
  assert.equal((await sandbox.runCode("open('b').read()", { context })).text, 'A')
  await sandbox.removeCodeContext(context)
  assert.equal(await (await fetch(await sandbox.downloadUrl('/tmp/b'))).text(), 'A')
  await files.remove('/tmp/b')
  assert.equal(await files.exists('/tmp/b'), false)
  await assert.rejects(files.write('/etc/x', '1'), /\/home\/user, \/root and \/tmp/)
})

test('an execution that takes too long is interrupted and the state stays', async () => {
  await assert.rejects(sandbox.runCode('x = 5\nwhile True: pass', { timeoutMs: 1000 }), TimeoutError)
  assert.equal((await sandbox.runCode('x')).text, '5')
})

test('commands that need no process are answered, others refused', async () => {
  assert.equal((await sandbox.commands.run('echo hello')).stdout, 'hello\n')
  await assert.rejects(sandbox.commands.run('npm install'), /processes cannot run in this sandbox/)
})

test('a command in the background is listed, connected to and killed', async () => {
  const command = await sandbox.commands.run(
    "python3 -c 'import time\nwhile True: print(1, flush=True); time.sleep(0.05)'",
    { background: true }
  )
  assert.deepEqual((await sandbox.commands.list()).map((one) => one.pid), [command.pid])
  assert.equal((await sandbox.runCode('1 + 1')).text, '2')
  const again = await sandbox.commands.connect(command.pid)
  assert.equal(await command.kill(), true)
  await assert.rejects(again.wait(), /signal: killed/)
  assert.deepEqual(await sandbox.commands.list(), [])
})

test('a directory is watched', async () => {
  const events = []
  const handle = await sandbox.files.watchDir('/home/user', (event) => events.push(event))
  await sandbox.files.write('watched', '1')
  for (let n = 0; n < 100 && events.length < 2; n++) {
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  assert.deepEqual(events.map((one) => [one.name, one.type]), [['watched', 'create'], ['watched', 'write']])
  await handle.stop()
  await sandbox.files.remove('watched')
})

test('sandboxes are found, paused, connected to, copied and ended', async () => {
  const found = await Sandbox.list({ query: { metadata: { who: 'js & co' } } }).nextItems()
  assert.deepEqual(found.map((one) => one.sandboxId), [sandbox.sandboxId])
  await sandbox.runCode('z = 3')
  const [fork] = await sandbox.fork()
  assert.equal((await fork.runCode('z')).text, '3')
  assert.equal(await fork.pause(), true)
  assert.equal(await fork.isRunning(), false)
  const again = await Sandbox.connect(fork.sandboxId)
  assert.equal((await again.runCode('z')).text, '3')
  await again.setTimeout(60_000)
  const snapshot = await again.createSnapshot()
  const other = await Sandbox.create(snapshot.snapshotId)
  assert.equal((await other.runCode('z')).text, '3')
  assert.equal(await other.kill(), true)
  const run = assert.rejects(again.runCode('import time; time.sleep(30)'), TimeoutError)
  await new Promise((resolve) => setTimeout(resolve, 500))
  assert.equal(await again.kill(), true)
  await run
  assert.equal(await again.isRunning(), false)
  assert.equal(await Sandbox.kill(fork.sandboxId), false)
})
