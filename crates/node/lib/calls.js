'use strict';

// Bounds for what a server sends. Its engine has checked and counted the calls of tools, but code
// that has broken out decides what arrives here.

const { BelljarError } = require('./errors.js');

// Defaults of `tool_limits`.
const CALLS = 1000;
const ARGUMENTS = 1 << 20;
const TOGETHER = 64 << 20;
// Bytes of an answer in memory, characters of an event, and bytes of an error. They are above what
// a server sends with its usual ceilings.
const MOST_READ = 2 ** 32;
const MOST_EVENT = 2 ** 28;
const MOST_PROBLEM = 1 << 20;
// Bytes of a checkpoint.
const MOST_COPIED = 2 ** 36;

/** The calls of one run. */
class Calls {
  #names;
  #limits;
  #calls = 0;
  #bytes = 0;

  constructor(names, { calls = CALLS, argument_bytes = ARGUMENTS, total_bytes = TOGETHER } = {}) {
    this.#names = new Set(names);
    this.#limits = { calls, argument_bytes, total_bytes };
  }

  /** Counts a call, and returns why it is refused, if it is. */
  refused(name, given) {
    const { calls, argument_bytes, total_bytes } = this.#limits;
    if (!this.#names.has(name)) return 'there is no such tool';
    if (given === null || typeof given !== 'object' || Array.isArray(given)) return 'the arguments are no object';
    const bytes = Buffer.byteLength(JSON.stringify(given));
    if (this.#calls >= calls) return `the run has used up its ${calls} calls`;
    if (bytes > argument_bytes) return `the arguments have ${bytes} bytes, at most ${argument_bytes} are taken`;
    if (this.#bytes + bytes > total_bytes) return `the run has used up its ${total_bytes} bytes for calls`;
    this.#calls += 1;
    this.#bytes += bytes;
    return undefined;
  }

  /** Counts an answer. */
  answered(body) {
    this.#bytes += Buffer.byteLength(body);
  }
}

/** The pieces of an answer, of at most `most` bytes. `heard` is called with each. */
async function* bounded(answer, most, heard) {
  let bytes = 0;
  for await (const piece of answer.body ?? []) {
    bytes += piece.length;
    if (bytes > most) throw tooLong(most);
    heard?.();
    yield piece;
  }
}

function tooLong(most) {
  const text = `the server's answer is longer than ${most} bytes`;
  return new BelljarError(text, { code: 'server.answer', blame: 'machine' });
}

module.exports = { Calls, MOST_COPIED, MOST_EVENT, MOST_PROBLEM, MOST_READ, bounded, tooLong };
