'use strict';

// Converts options of the caller for the addon.

const { ToolError, argument } = require('./errors.js');
const { tagged } = require('./values.js');

function checked(options) {
  if (options === null || typeof options !== 'object') throw argument('options', 'is not an object');
  return options;
}

function file(source) {
  if (!(source instanceof Uint8Array)) return source;
  const bytes = Buffer.from(source.buffer, source.byteOffset, source.byteLength);
  return { base64: bytes.toString('base64') };
}

function mapped(object, form) {
  if (object === undefined) return undefined;
  return Object.fromEntries(Object.entries(object).map(([name, item]) => [name, form(item)]));
}

/** Makes the JSON request, without the options that are handled here. */
function request(code, options) {
  if (typeof code !== 'string') throw argument('code', 'is not a string');
  const { tools, signal, onEvent, files, set, ...rest } = checked(options);
  // JSON has null instead, which leaves only the ceiling.
  if (typeof rest.timeout === 'number' && !Number.isFinite(rest.timeout)) {
    throw argument('timeout', `is ${rest.timeout}; null leaves only the ceiling`);
  }
  return { ...rest, code, files: mapped(files, file), set: mapped(set, (value) => tagged(value)) };
}

/** Makes the tools' descriptions in JSON, and a function that calls them. */
function tooling(tools) {
  if (tools === undefined) return [undefined, undefined];
  const known = new Map();
  const described = Object.entries(tools).map(([name, tool]) => {
    const { run, description, parameters } = typeof tool === 'function' ? { run: tool } : tool;
    if (typeof run !== 'function') throw argument('tools', `has \`${name}\`, which is not a function`);
    known.set(name, run);
    return { name, description: description ?? '', parameters: parameters ?? { type: 'object' } };
  });
  return [JSON.stringify(described), (name, given) => answer(known, name, given)];
}

/**
 * Returns the result of a tool's function in JSON. Never rejects, because the rejection would be
 * lost.
 */
async function answer(known, name, given) {
  try {
    const value = await known.get(name)(JSON.parse(given));
    return JSON.stringify({ answer: value === undefined ? null : value });
  } catch (error) {
    if (error instanceof ToolError) return JSON.stringify({ error: String(error.message) });
    const kind = error instanceof Error ? error.constructor.name : typeof error;
    process.emitWarning(`the tool ${name} failed: ${error?.stack ?? error}`, 'BelljarToolWarning');
    return JSON.stringify({ error: String(kind) });
  }
}

/** Waits until other tasks have had the event loop. */
function turn() {
  return new Promise(setImmediate);
}

/**
 * Starts a run: `begin` gets a function for events and a switch, each undefined if not used. If the
 * caller's function for events throws, the run is interrupted and the promise rejects with the
 * error. `newSwitch` makes the switch.
 */
async function watched({ signal, onEvent }, begin, newSwitch) {
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw argument('signal', 'is not an AbortSignal');
  }
  if (onEvent !== undefined && typeof onEvent !== 'function') {
    throw argument('onEvent', 'is not a function');
  }
  if (signal === undefined && onEvent === undefined) {
    const done = await begin();
    // A short run has ended when its promise is returned: a series of them must not block the event
    // loop.
    await turn();
    return done;
  }
  const stop = newSwitch();
  const interrupt = () => stop.interrupt();
  let thrown;
  const ending = deferred();
  let begun = false;
  const listener = (text) => {
    const event = JSON.parse(text);
    begun = true;
    if (event.type === 'ended') ending.resolve();
    if (thrown !== undefined) return;
    try {
      onEvent(event);
    } catch (error) {
      thrown = { error };
      stop.interrupt();
    }
  };
  // The last events may still be queued, and do not keep the process alive.
  const heard = async () => {
    // Events sent before the first callback have arrived when the second one runs.
    for (let turns = 0; !begun && turns < 2; turns++) await turn();
    if (!begun) return;
    const awake = setInterval(() => {}, 1000);
    await ending.promise;
    clearInterval(awake);
  };
  if (signal?.aborted) stop.interrupt();
  else signal?.addEventListener('abort', interrupt, { once: true });
  try {
    const done = await begin(onEvent && listener, stop);
    if (onEvent === undefined) await turn();
    else await heard();
    if (thrown !== undefined) throw thrown.error;
    return done;
  } finally {
    signal?.removeEventListener('abort', interrupt);
  }
}

function deferred() {
  let resolve;
  const promise = new Promise((done) => {
    resolve = done;
  });
  return { promise, resolve };
}

module.exports = { checked, request, tooling, watched };
