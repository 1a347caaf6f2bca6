'use strict';

// Loads the addon: from next to the package, after `npm run build`; in the repository, from cargo's
// target directory; or from the package for this platform, which npm installs.

const fs = require('node:fs');
const path = require('node:path');

const NAMES = { darwin: 'libbelljar_node.dylib', win32: 'belljar_node.dll' };
const PACKAGE = `belljar-${process.platform}-${process.arch}`;

function places() {
  const found = [path.join(__dirname, '..', 'belljar.node')];
  // A published package has no build script, and must not load what a project's own build made.
  if (fs.existsSync(path.join(__dirname, '..', 'build.js'))) {
    const root = path.join(__dirname, '..', '..', '..');
    const target = path.resolve(root, process.env.CARGO_TARGET_DIR ?? 'target');
    found.push(path.join(target, 'release', NAMES[process.platform] ?? 'libbelljar_node.so'));
  }
  return found;
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
