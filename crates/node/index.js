'use strict';

const { BelljarError, RunError, ToolError, argument, asked } = require('./lib/errors.js');
const { checked, request, tooling, watched } = require('./lib/requests.js');
const remote = require('./lib/remote.js');
const { EventStream } = require('./lib/stream.js');
const { tagged, untagged } = require('./lib/values.js');

const OWN = Symbol('made by this package');

function frozen(value) {
  if (value !== null && typeof value === 'object') {
    Object.values(value).forEach(frozen);
    Object.freeze(value);
  }
  return value;
}

/** Makes an outcome object with methods to read the run's files, and to throw its error. */
function outcomeOf(text, read) {
  const outcome = JSON.parse(text);
  Object.defineProperty(outcome, 'read', { value: (path) => asked(() => read(path)) });
  Object.defineProperty(outcome, 'raiseForError', {
    value: () => {
      if (outcome.error !== null) throw new RunError(outcome);
      return outcome;
    },
  });
  return frozen(outcome);
}

function own(key, what) {
  if (key !== OWN) throw argument('new', `cannot make a ${what}: use the function that returns one`);
}

/** The addon, which a program that uses a server alone does without. */
function native() {
  return require('./lib/native.js');
}

/** Makes what interrupts a run of the addon, or of a server. */
function switchOf(made) {
  return () => made.newSwitch?.() ?? new (native().Switch)();
}

/** The engine, shared by runs and sessions. */
class Runtime {
  #native;

  constructor(key, made) {
    own(key, 'Runtime');
    this.#native = made;
  }

  static async start(options = {}) {
    const { onProgress, ...rest } = checked(options);
    let thrown;
    const step = (text) => {
      try {
        onProgress(text === '' ? null : text);
      } catch (error) {
        thrown ??= { error };
      }
    };
    const asks = JSON.stringify(rest);
    const made = await asked(() => native().start(asks, onProgress && step));
    if (thrown !== undefined) throw thrown.error;
    return new Runtime(OWN, made);
  }

  async run(code, options = {}) {
    const asks = JSON.stringify(request(code, options));
    const tools = tooling(options.tools);
    const run = await watched(
      options,
      (listener, stop) => asked(() => this.#native.run(asks, listener, ...tools, stop)),
      switchOf(this.#native)
    );
    return outcomeOf(run.outcome, (path) => run.read(path));
  }

  stream(code, options = {}) {
    return new EventStream(
      (onEvent, signal) => this.run(code, { ...checked(options), onEvent, signal }),
      options.signal
    );
  }

  async session(options = {}) {
    const { code = '', lifetime, idle, fuel_total: fuel, history, ...rest } = checked(options);
    const start = request(code, rest);
    const asks = JSON.stringify({ start, lifetime, idle, fuel, history });
    const made = await asked(() => this.#native.session(asks, ...tooling(options.tools)));
    return new Session(OWN, made);
  }

  async restore(path, options = {}) {
    const { tools, fuel_total: fuel, ...rest } = checked(options);
    const asks = JSON.stringify({ ...rest, fuel });
    const made = await asked(() => this.#native.restore(path, asks, ...tooling(tools)));
    return new Session(OWN, made);
  }

  lockdown(options = {}) {
    return frozen(JSON.parse(this.#native.lockdown(JSON.stringify(checked(options)))));
  }

  async check(code, policy) {
    const policyText = policy === undefined ? undefined : JSON.stringify(policy);
    return frozen(JSON.parse(await asked(() => this.#native.check(code, policyText))));
  }
}

/** An interpreter that keeps its state from run to run. */
class Session {
  #native;

  constructor(key, made) {
    own(key, 'Session');
    this.#native = made;
    this.files = new Files(OWN, made.files);
    Object.freeze(this);
  }

  get id() {
    return this.#native.id;
  }

  async run(code, options = {}) {
    const asks = JSON.stringify(request(code, options));
    if (options.tools !== undefined) {
      throw argument('tools', 'belongs to the session: pass it to `runtime.session`');
    }
    const text = await watched(
      options,
      (listener, stop) => asked(() => this.#native.run(asks, listener, stop)),
      switchOf(this.#native)
    );
    return outcomeOf(text, (path) => this.files.read(path));
  }

  stream(code, options = {}) {
    return new EventStream(
      (onEvent, signal) => this.run(code, { ...checked(options), onEvent, signal }),
      options.signal
    );
  }

  interrupt() {
    return this.#native.interrupt();
  }

  async fork() {
    return new Session(OWN, await asked(() => this.#native.fork()));
  }

  async rewind(execution) {
    if (!Number.isInteger(execution) || execution < 0 || execution > 0xffffffff) {
      throw argument('execution', 'is not the number of a run');
    }
    await asked(() => this.#native.rewind(execution));
  }

  async checkpoint(path) {
    await asked(() => this.#native.checkpoint(path));
  }

  async get(name) {
    const text = await asked(() => this.#native.get(name));
    return typeof text === 'string' ? untagged(JSON.parse(text)) : undefined;
  }

  async set(name, value) {
    const text = JSON.stringify(tagged(value));
    await asked(() => this.#native.set(name, text));
  }

  close() {
    this.#native.close();
  }
}

/** The files of a session's workspace. */
class Files {
  #native;

  constructor(key, made) {
    own(key, 'Files');
    this.#native = made;
  }

  read(path) {
    return asked(() => this.#native.read(path));
  }

  async write(path, data) {
    if (typeof data !== 'string' && !(data instanceof Uint8Array)) {
      throw argument('data', 'is neither a string nor bytes');
    }
    await asked(() => this.#native.write(path, Buffer.from(data)));
  }

  async list(dir = '', { depth = 1 } = {}) {
    const entries = JSON.parse(await asked(() => this.#native.list(dir, depth)));
    return entries.map((entry) => ({
      ...entry,
      modified: entry.modified === null ? null : new Date(entry.modified),
    }));
  }

  async makeDir(path) {
    await asked(() => this.#native.makeDir(path));
  }

  async rename(from, to) {
    await asked(() => this.#native.rename(from, to));
  }

  async remove(path) {
    await asked(() => this.#native.remove(path));
  }
}

/** Returns a runtime whose runs and sessions are those of a server. */
function connect(options = {}) {
  const { url, key, timeout, retries, ...rest } = checked(options);
  const [unknown] = Object.keys(rest);
  if (unknown !== undefined) throw argument('options', `has an unknown field \`${unknown}\``);
  return new Runtime(OWN, new remote.Runtime({ url, key, timeout, retries }));
}

module.exports = { BelljarError, EventStream, Files, RunError, Runtime, Session, ToolError, connect };
