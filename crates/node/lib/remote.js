'use strict';

// A server in the place of the addon: its classes have the addon's methods.

const crypto = require('node:crypto');
const fs = require('node:fs');
const path = require('node:path');
const { Readable } = require('node:stream');
const { pipeline } = require('node:stream/promises');
const { Calls, MOST_COPIED, bounded } = require('./calls.js');
const { BelljarError, argument } = require('./errors.js');
const { Link, told } = require('./link.js');

/** Interrupts the runs that it was given to. */
class Switch {
  #heard = [];
  #isOn = false;

  interrupt() {
    this.#isOn = true;
    for (const heard of this.#heard.splice(0)) heard();
  }

  /** Calls a function once it is on. */
  hear(function_) {
    if (this.#isOn) function_();
    else this.#heard.push(function_);
  }
}

/** The server. */
class Runtime {
  #link;

  constructor(options) {
    this.#link = new Link(options);
  }

  newSwitch() {
    return new Switch();
  }

  async run(asks, listener, described, answerer, stop) {
    const asked = withFiles(JSON.parse(asks));
    const { run, id: _, ...outcome } = await follow(this.#link, '/v1/runs', asked, {
      listener,
      described,
      answerer,
      stop,
    });
    const read = async (file) => {
      if (run !== undefined) return this.#link.ask('GET', `/v1/runs/${run}/files/${quoted(file)}`);
      const text = `the run left no file ${file}`;
      throw new BelljarError(text, { code: 'no_such_file', blame: 'caller' });
    };
    return { outcome: JSON.stringify(outcome), read };
  }

  async session(asks, described, answerer) {
    const { start, fuel, history, ...own } = JSON.parse(asks);
    const asked = {
      ...withFiles(start),
      ...own,
      total_fuel: fuel,
      history_runs: history?.runs,
      history_bytes: history?.bytes,
    };
    const made = await this.#link.json('POST', '/v1/sessions', asked, { headers: once(), silence: null });
    return new Session(this.#link, made.id, described, answerer);
  }

  async restore(file, asks, described, answerer) {
    const { client, lifetime, idle, fuel, policy, ...rest } = JSON.parse(asks);
    const known = ['id', 'mounts', 'lease'];
    for (const name of Object.keys(rest)) {
      if (!known.includes(name)) throw argument('options', `has an unknown field \`${name}\``);
      throw argument(name, 'is not available from a server');
    }
    if (typeof policy === 'object') throw argument('policy', 'is `open` or `strict` for a server');
    const query = new URLSearchParams();
    const given = { name: client, lifetime, idle, total_fuel: fuel, policy };
    for (const [name, value] of Object.entries(given)) if (value !== undefined) query.set(name, value);
    // Its absence is the caller's mistake.
    try {
      await fs.promises.access(file, fs.constants.R_OK);
    } catch (error) {
      throw argument('path', `cannot be read: ${error.message}`);
    }
    const answer = await this.#link.ask('POST', `/v1/checkpoints?${query}`, {
      body: () => fs.createReadStream(file),
      headers: { ...once(), 'content-type': 'application/octet-stream' },
      silence: null,
    });
    return new Session(this.#link, this.#link.parsed(answer).id, described, answerer);
  }

  lockdown() {
    const text = 'code runs on the server: belljar serve --lockdown locks that down';
    throw new BelljarError(text, { code: 'server.unsupported', blame: 'caller' });
  }

  async check(code, policy) {
    const asked = { code, policy: policy === undefined ? 'open' : JSON.parse(policy) };
    return JSON.stringify(await this.#link.json('POST', '/v1/check', asked));
  }
}

/** A session of the server. */
class Session {
  #link;
  #path;
  #described;
  #answerer;
  #running = 0;
  #isClosed = false;

  constructor(link, id, described, answerer) {
    this.id = id;
    this.#link = link;
    this.#path = `/v1/sessions/${id}`;
    this.#described = described;
    this.#answerer = answerer;
    this.files = new Files(link, this.#path);
  }

  newSwitch() {
    return new Switch();
  }

  async run(asks, listener, stop) {
    this.#check();
    this.#running++;
    try {
      const { id: _, ...outcome } = await follow(this.#link, `${this.#path}/runs`, withFiles(JSON.parse(asks)), {
        listener,
        described: this.#described,
        answerer: this.#answerer,
        stop,
      });
      return JSON.stringify(outcome);
    } finally {
      this.#running--;
    }
  }

  /** Whether a run of this client's is under way. */
  interrupt() {
    if (this.#running === 0) return false;
    this.#quietly('POST', `${this.#path}/interrupt`);
    return true;
  }

  async fork() {
    this.#check();
    const made = await this.#link.json('POST', `${this.#path}/fork`, {}, { headers: once() });
    return new Session(this.#link, made.id, this.#described, this.#answerer);
  }

  async rewind(execution) {
    this.#check();
    await this.#link.json('POST', `${this.#path}/rewind`, { execution }, { repeatable: false });
  }

  async checkpoint(file) {
    this.#check();
    const answer = await this.#link.ask('GET', `${this.#path}/checkpoint`, { silence: null, isStream: true });
    const part = path.join(path.dirname(file), `.belljar-${crypto.randomUUID()}`);
    try {
      await pipeline(Readable.from(bounded(answer, MOST_COPIED)), fs.createWriteStream(part));
      await fs.promises.rename(part, file);
    } catch (error) {
      await fs.promises.rm(part, { force: true });
      // Errors of the file have a path or a system call.
      if (error instanceof BelljarError || error.syscall !== undefined) throw error;
      throw this.#link.lost(error, false, true);
    }
  }

  async get(name) {
    this.#check();
    try {
      return String(await this.#link.ask('GET', `${this.#path}/variables/${segment(name)}`));
    } catch (error) {
      if (error.code === 'session.no_variable') return undefined;
      throw error;
    }
  }

  async set(name, value) {
    this.#check();
    await this.#link.ask('PUT', `${this.#path}/variables/${segment(name)}`, {
      body: value,
      headers: { 'content-type': 'application/json' },
    });
  }

  close() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#quietly('DELETE', this.#path);
  }

  /** Sends a request whose answer nobody awaits. */
  #quietly(method, where) {
    this.#link.json(method, where).catch(() => undefined);
  }

  #check() {
    if (!this.#isClosed) return;
    const text = `session ${this.id} was closed`;
    throw new BelljarError(text, { code: 'session.not_found', blame: 'caller' });
  }
}

/** The workspace of a session. */
class Files {
  #link;
  #path;

  constructor(link, where) {
    this.#link = link;
    this.#path = where;
  }

  async read(file) {
    return this.#link.ask('GET', `${this.#path}/files/${quoted(file)}`);
  }

  async write(file, data) {
    await this.#link.ask('PUT', `${this.#path}/files/${quoted(file)}`, {
      // A copy, because the caller may change it meanwhile.
      body: Buffer.from(data),
      headers: { 'content-type': 'application/octet-stream' },
    });
  }

  async list(dir, depth) {
    const query = new URLSearchParams({ path: dir, depth });
    const { entries } = await this.#link.json('GET', `${this.#path}/files?${query}`);
    const entry = ({ path: where, kind, size, modified, target }) => ({
      path: where,
      kind,
      size,
      modified: modified === undefined ? null : Date.parse(modified),
      target: target ?? null,
    });
    return JSON.stringify(entries.map(entry));
  }

  async makeDir(dir) {
    await this.#link.json('POST', `${this.#path}/directories`, { path: dir });
  }

  async rename(from, to) {
    await this.#link.json('POST', `${this.#path}/rename`, { from, to }, { repeatable: false });
  }

  async remove(file) {
    await this.#link.ask('DELETE', `${this.#path}/files/${quoted(file)}`, { repeatable: false });
  }
}

/** Runs a request, does what the caller does meanwhile, and returns the outcome. */
async function follow(link, where, asked, { listener, described, answerer, stop }) {
  const tools = described === undefined ? [] : JSON.parse(described);
  const client_tools = tools.map(({ parameters, ...tool }) => ({ ...tool, schema: parameters }));
  const stream = link.retries > 0 ? crypto.randomUUID() : undefined;
  const body = JSON.stringify({
    ...asked,
    stream,
    ...(client_tools.length > 0 && { client_tools }),
    client_interrupt: true,
    events: listener !== undefined,
  });
  const calls = new Calls(
    tools.map((tool) => tool.name),
    asked.tool_limits
  );
  const headers = { 'content-type': 'application/json', accept: 'text/event-stream' };
  let outcome;
  try {
    for await (const [type, text] of link.stream(where, stream, { body, headers })) {
      if (type === 'outcome') outcome = link.parsed(text);
      else if (type === 'problem') throw told(link.parsed(text));
      else if (type === 'run') {
        const { id } = link.parsed(text);
        // Too late for a run that has ended.
        stop?.hear(() => link.json('POST', `/v1/runs/${id}/interrupt`).catch(() => undefined));
      } else if (type === 'call') replied(link, answerer, calls, link.parsed(text)).catch(() => undefined);
      else if (type !== 'call_cancelled') listener?.(text.trim());
    }
  } finally {
    // Without this, the run would go on for a while.
    if (outcome === undefined && stream) link.json('DELETE', `/v1/streams/${stream}`).catch(() => undefined);
  }
  return outcome;
}

/** Answers a call. It fails for a run that has ended. */
async function replied(link, answerer, calls, { id, name, arguments: given }) {
  const error = calls.refused(name, given);
  const body = error === undefined ? await answerer(name, JSON.stringify(given)) : JSON.stringify({ error });
  calls.answered(body);
  const headers = { 'content-type': 'application/json' };
  await link.ask('POST', `/v1/calls/${segment(String(id))}`, { body, headers });
}

/** A request with the contents of the files of this machine that it names. */
function withFiles(asked) {
  if (asked.files === undefined) return asked;
  const content = (file) =>
    typeof file?.path === 'string' ? { base64: fs.readFileSync(file.path).toString('base64') } : file;
  const files = Object.entries(asked.files).map(([name, file]) => [name, content(file)]);
  return { ...asked, files: Object.fromEntries(files) };
}

function quoted(file) {
  return String(file).split('/').map(segment).join('/');
}

/** A segment of a URL's path. `fetch` would leave out those of dots. */
function segment(name) {
  if (['.', '..'].includes(name)) throw argument('path', 'has `.` or `..`');
  return encodeURIComponent(name);
}

/** A header by which a request that is sent again makes nothing a second time. */
function once() {
  return { 'idempotency-key': crypto.randomUUID() };
}

module.exports = { Runtime };
