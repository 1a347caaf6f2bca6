'use strict';

// What a caller asks for, as the addon takes it.

const native = require('./native.js');
const { ToolError, argument } = require('./errors.js');
const { tagged } = require('./values.js');

function checked(options) {
  if (options === null || typeof options !== 'object') throw argument('options', 'is no object');
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

/** The request in JSON's shape: what is the caller's own is taken out of the options. */
function request(code, options) {
  if (typeof code !== 'string') throw argument('code', 'is no string');
  const { tools, signal, onEvent, files, set, ...rest } = checked(options);
  return { ...rest, code, files: mapped(files, file), set: mapped(set, (value) => tagged(value)) };
}

/** The tools' descriptions in JSON, and the one function that answers for them. */
function tooling(tools) {
  if (tools === undefined) return [undefined, undefined];
  const known = new Map();
  const described = Object.entries(tools).map(([name, tool]) => {
    const { run, description, parameters } = typeof tool === 'function' ? { run: tool } : tool;
    if (typeof run !== 'function') throw argument('tools', `has \`${name}\`, which is no function`);
    known.set(name, run);
    return { name, description: description ?? '', parameters: parameters ?? { type: 'object' } };
  });
  return [JSON.stringify(described), (name, given) => answer(known, name, given)];
}

/** What a tool's function comes to, in JSON. It never rejects: nobody would hear of it. */
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

/** Waits until others have had the event loop. */
function turn() {
  return new Promise(setImmediate);
}

/**
 * Begins a run: `begin` is given a function for events and a switch, or undefined where nobody uses them.
 * What the caller's own function for events throws interrupts the run, and is what the promise rejects
 * with.
 */
async function watched({ signal, onEvent }, begin) {
  if (signal !== undefined && !(signal instanceof AbortSignal)) {
    throw argument('signal', 'is no AbortSignal');
  }
  if (onEvent !== undefined && typeof onEvent !== 'function') {
    throw argument('onEvent', 'is no function');
  }
  if (signal === undefined && onEvent === undefined) {
    const done = await begin();
    // A short run is over by the time that it is promised: a row of them keeps nobody from the loop.
    await turn();
    return done;
  }
  const stop = new native.Switch();
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
  // The last events may still be on their way, which keep no process from its end by themselves.
  const heard = async () => {
    // In the second one those have come that were told before the first began.
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
