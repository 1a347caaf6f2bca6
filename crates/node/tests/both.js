'use strict';

// Tests of the addon and of a server, with the same runtime object. BELLJAR names the command that
// serves, else it is the one in cargo's target directory.

const fs = require('node:fs');
const path = require('node:path');
const { spawn } = require('node:child_process');
const { after, before, test } = require('node:test');
const { createInterface } = require('node:readline');
const { Runtime, connect } = require('..');

const target = process.env.CARGO_TARGET_DIR ?? path.join(__dirname, '..', '..', '..', 'target');
const command = process.env.BELLJAR ?? path.join(target, 'release', 'belljar');
const isThere = fs.existsSync(command);
const runtimes = {};
let server;

before(async () => {
  runtimes.here = await Runtime.start();
  if (!isThere) return;
  const options = { stdio: ['ignore', 'pipe', 'inherit'] };
  server = spawn(command, ['serve', '--listen', '127.0.0.1:0', '--json'], options);
  for await (const line of createInterface({ input: server.stdout })) {
    const { url, key } = JSON.parse(line);
    runtimes.server = connect({ url, key });
    runtimes.served = { url, key };
    break;
  }
});

after(async () => {
  if (server === undefined) return;
  const ended = new Promise((resolve) => server.on('exit', resolve));
  server.kill('SIGTERM');
  await ended;
});

/**
 * Returns a function that registers a test for both. `use` gets the runtime before each test. A test
 * that says `{ here: WHY }` is not run with the server.
 */
function both(use) {
  return (name, ...rest) => {
    const body = rest.pop();
    for (const kind of rest[0]?.here === undefined ? ['here', 'server'] : ['here']) {
      const skip = kind === 'server' && !isThere && `${command} is not there`;
      test(`${name} (${kind})`, { skip }, async (context) => {
        use(runtimes[kind], kind);
        await body(context);
      });
    }
  };
}

module.exports = { both, runtimes, isThere };
