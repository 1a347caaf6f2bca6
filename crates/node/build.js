'use strict';

// Builds the addon with cargo, and copies it next to the package.

const { execFileSync } = require('node:child_process');
const fs = require('node:fs');
const path = require('node:path');

const NAMES = { darwin: 'libbelljar_node.dylib', win32: 'belljar_node.dll' };
const root = path.join(__dirname, '..', '..');
const target = path.resolve(root, process.env.CARGO_TARGET_DIR ?? 'target');

execFileSync('cargo', ['build', '--release', '--locked', '--lib', '--target-dir', target], {
  cwd: __dirname,
  stdio: 'inherit',
});
fs.copyFileSync(
  path.join(target, 'release', NAMES[process.platform] ?? 'libbelljar_node.so'),
  path.join(__dirname, 'belljar.node')
);
