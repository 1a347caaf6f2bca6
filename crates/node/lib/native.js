'use strict';

// Loads the addon: from next to the package, after `npm run build`; from cargo's target directory; or
// from the package for this platform, which npm installs.

const fs = require('node:fs');
const path = require('node:path');

const NAMES = { darwin: 'libbelljar_node.dylib', win32: 'belljar_node.dll' };
const PACKAGE = `belljar-${process.platform}-${process.arch}`;

function places() {
  const name = NAMES[process.platform] ?? 'libbelljar_node.so';
  const root = path.join(__dirname, '..', '..', '..');
  const target = process.env.CARGO_TARGET_DIR ?? path.join(root, 'target');
  return [path.join(__dirname, '..', 'belljar.node'), path.join(target, 'release', name)];
}

function load() {
  const found = places().find((place) => fs.existsSync(place));
  if (found !== undefined) {
    const loaded = { exports: {} };
    process.dlopen(loaded, found);
    return loaded.exports;
  }
  try {
    return require(PACKAGE);
  } catch (error) {
    if (error.code !== 'MODULE_NOT_FOUND') throw error;
    throw new Error(
      `belljar's addon is missing: there is no package ${PACKAGE}, and no file ` +
        `${places().join(' or ')}. Install the package, or run \`npm run build\` in crates/node`
    );
  }
}

module.exports = load();
