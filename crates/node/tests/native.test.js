'use strict';

// Where the addon of a published package comes from. Files of a project stand in for addons.

const assert = require('node:assert/strict');
const { spawnSync } = require('node:child_process');
const fs = require('node:fs');
const os = require('node:os');
const path = require('node:path');
const { test } = require('node:test');

const PACKAGE = `belljar-${process.platform}-${process.arch}`;

test("a published package loads its platform's package, and nothing of the project", (t) => {
  const project = fs.mkdtempSync(path.join(os.tmpdir(), 'belljar-'));
  t.after(() => fs.rmSync(project, { recursive: true }));
  const lib = path.join(project, 'node_modules/belljar/lib');
  const release = path.join(project, 'target/release');
  for (const folder of [lib, release]) fs.mkdirSync(folder, { recursive: true });
  fs.copyFileSync(path.join(__dirname, '../lib/native.js'), path.join(lib, 'native.js'));
  for (const name of ['libbelljar_node.so', 'libbelljar_node.dylib', 'belljar_node.dll'])
    fs.writeFileSync(path.join(release, name), 'no addon');
  const load = (target) => {
    const env = { ...process.env, CARGO_TARGET_DIR: target };
    if (target === undefined) delete env.CARGO_TARGET_DIR;
    const code = 'console.log(require("belljar/lib/native.js"))';
    return spawnSync(process.execPath, ['-e', code], { cwd: project, env, encoding: 'utf8' });
  };
  for (const target of [undefined, 'target']) assert.match(load(target).stderr, /addon is missing/);
  const part = path.join(project, 'node_modules', PACKAGE);
  fs.mkdirSync(part);
  fs.writeFileSync(path.join(part, 'index.js'), 'module.exports = "the addon";');
  for (const target of [undefined, 'target']) assert.equal(load(target).stdout, 'the addon\n');
});
