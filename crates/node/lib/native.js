'use strict';

// Loads the addon: from next to the package, after `npm run build`, or from cargo's target
// directory.

const fs = require('node:fs');
const path = require('node:path');

const NAMES = { darwin: 'libbelljar_node.dylib', win32: 'belljar_node.dll' };

function places() {
  const name = NAMES[process.platform] ?? 'libbelljar_node.so';
  const root = path.join(__dirname, '..', '..', '..');
  const target = process.env.CARGO_TARGET_DIR ?? path.join(root, 'target');
  return [path.join(__dirname, '..', 'belljar.node'), path.join(target, 'release', name)];
}

function load() {
  const found = places().find((place) => fs.existsSync(place));
  if (found === undefined) {
    throw new Error(
      `belljar's addon is not built: no file ${places().join(' or ')}. ` +
        'Build it with `npm run build` in crates/node'
    );
  }
  const loaded = { exports: {} };
  process.dlopen(loaded, found);
  return loaded.exports;
}

module.exports = load();
