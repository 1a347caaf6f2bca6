'use strict';

// Requests to a server, with retries.

const { setTimeout: sleep } = require('node:timers/promises');
const { MOST_EVENT, MOST_PROBLEM, MOST_READ, bounded, tooLong } = require('./calls.js');
const { BelljarError, argument } = require('./errors.js');

const FIRST_PAUSE = 0.1;
const LONGEST_PAUSE = 5;
// The longest wait that a server may ask for, in seconds.
const LONGEST = 30;
// How long a creation that is under way is asked for, in seconds, if its answer may take any time.
const LONGEST_CREATION = 600;

// Seconds after the first attempt in which a request is sent again that a server does not know.
// Later the server may have forgotten that it ran the code.
const AGAIN = 30;

/** A server: its address and the key to it. */
class Link {
  #headers;

  constructor({ url = process.env.BELLJAR_URL, key = process.env.BELLJAR_KEY, timeout = 60, retries = 4 }) {
    if (url === undefined || url === '') throw argument('url', 'is missing: give one, or set BELLJAR_URL');
    // The text before the host may be a key.
    const shown = String(url).split('@').at(-1);
    let parts;
    try {
      parts = new URL(url);
    } catch {
      throw argument('url', `is ${shown}, not the address of a server`);
    }
    const { protocol, username, search, hash } = parts;
    if (!['http:', 'https:'].includes(protocol) || username || search || hash) {
      throw argument('url', `is ${shown}, not the address of a server`);
    }
    // `fetch` would show it in its error.
    if (/[^ -~]/.test(key?.trim())) throw argument('key', 'has characters that no key has');
    if (timeout !== null && !(timeout > 0)) throw argument('timeout', 'is neither seconds nor null');
    this.url = url.replace(/\/+$/, '');
    this.timeout = timeout;
    this.retries = retries;
    this.#headers = key ? { authorization: `Bearer ${key.trim()}` } : {};
  }

  /**
   * Sends a request until it is answered, and throws what the server refuses. It is sent again if the
   * server was not reached, answers that it is busy, or, if `repeatable`, if the connection was lost.
   * `body` is sent as it is, or made by a function for each attempt. `ended` aborts the answer.
   * Returns the answer's body, or with `isStream` the answer itself.
   */
  async ask(method, path, options = {}) {
    const { body, headers = {}, repeatable = true, silence = this.timeout, ended, isStream } = options;
    const begun = performance.now();
    for (let attempt = 0; ; attempt++) {
      const own = new AbortController();
      const timer = silence === null ? undefined : setTimeout(() => own.abort(), silence * 1000);
      let problem;
      let pause = pauseAfter(attempt);
      try {
        const answer = await fetch(this.url + path, {
          method,
          headers: { ...this.#headers, ...headers },
          body: typeof body === 'function' ? body() : body,
          duplex: 'half',
          // It may lead to another server.
          redirect: 'manual',
          signal: ended === undefined ? own.signal : AbortSignal.any([ended, own.signal]),
        });
        if (answer.ok) return isStream ? answer : await whole(answer, MOST_READ, timer);
        problem = await this.#refused(answer);
        const after = retryAfter(answer, problem);
        const waited = (performance.now() - begun) / 1000;
        const isPatient = problem.code === 'idempotency_key' && waited < (silence ?? LONGEST_CREATION);
        if (after === undefined || (attempt >= this.retries && !isPatient)) throw problem;
        pause = Math.max(after, pause);
      } catch (error) {
        if (error === problem || error instanceof BelljarError) throw error;
        const isReached = !['ECONNREFUSED', 'ENOTFOUND', 'EAI_AGAIN'].includes(error?.cause?.code);
        const isOver = own.signal.aborted || ended?.aborted;
        if (isOver || attempt >= this.retries || (isReached && !repeatable)) {
          throw this.lost(error, own.signal.aborted, isReached);
        }
      } finally {
        clearTimeout(timer);
      }
      await sleep(pause * 1000);
    }
  }

  /** Sends JSON, and returns the answer's. */
  async json(method, path, document, options = {}) {
    const headers = { ...options.headers, 'content-type': 'application/json' };
    const body = document === undefined ? undefined : JSON.stringify(document);
    return this.parsed(await this.ask(method, path, { ...options, body, headers: body ? headers : options.headers }));
  }

  /** What an answer's body says in JSON. */
  parsed(body) {
    if (body.length === 0) return undefined;
    try {
      return JSON.parse(body);
    } catch {
      throw this.#strange('without JSON');
    }
  }

  /** The server-sent events of an answer, as `[type, data, number]` with the data's JSON text. */
  async *events(answer, abort) {
    const decoder = new TextDecoder();
    // An event whose end has not arrived, in pieces.
    let pieces = [];
    let length = 0;
    let last = '';
    const reader = answer.body.getReader();
    let isOver = false;
    try {
      for (;;) {
        const { done, value } = await this.#inTime(reader.read(), abort);
        isOver = done;
        if (done) return;
        const piece = decoder.decode(value, { stream: true });
        pieces.push(piece);
        length += piece.length;
        if (length > MOST_EVENT) throw tooLong(MOST_EVENT);
        const hasEnd = (last + piece).includes('\n\n');
        last = piece.slice(-1) || last;
        if (!hasEnd) continue;
        const events = pieces.join('').split('\n\n');
        const rest = events.pop();
        [pieces, length, last] = [[rest], rest.length, rest.slice(-1)];
        for (const event of events) {
          const found = field(event);
          if (found !== undefined) yield found;
        }
      }
    } catch (error) {
      if (error instanceof BelljarError) throw error;
      throw this.lost(error, false, true);
    } finally {
      // A stream that is left early would keep its connection.
      if (!isOver) reader.cancel().catch(() => undefined);
      reader.releaseLock();
    }
  }

  /** Awaits what the server sends next. It sends something every 15 seconds. */
  async #inTime(work, abort) {
    if (this.timeout === null) return work;
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(this.lost(undefined, true, true)), this.timeout * 1000);
    });
    try {
      return await Promise.race([work, late]);
    } catch (error) {
      work.catch(() => undefined);
      abort();
      throw error;
    } finally {
      clearTimeout(timer);
    }
  }

  /**
   * The events of a run up to its outcome, as `[type, data]`. With the id of a stream they go on after
   * a lost connection, and none is lost or comes twice. `ask` has the request for `ask()`.
   */
  async *stream(where, id, ask) {
    const kept = id && `/v1/streams/${id}`;
    const begun = performance.now();
    let seen = 0;
    for (let failures = 0, isFirst = true; ; failures++) {
      const own = new AbortController();
      try {
        const answer = await this.#opened(where, kept, seen, isFirst ? undefined : begun, {
          ...ask,
          ended: own.signal,
        });
        isFirst = false;
        for await (const [type, text, number] of this.events(answer, () => own.abort())) {
          if (kept !== undefined) {
            if (number <= seen) continue;
            if (number !== seen + 1) throw this.#strange(answer.status);
            [seen, failures] = [number, 0];
          }
          yield [type, text];
          if (type === 'outcome' || type === 'problem') return;
        }
        throw this.lost(new Error('the stream ended early'), false, true);
      } catch (error) {
        const isLost = ['server.lost', 'server.timeout', 'server.unreachable'].includes(error?.code);
        // What was never reached was asked for several times.
        const isNew = isFirst && error.code === 'server.unreachable';
        if (!isLost || isNew || kept === undefined || failures >= this.retries) throw error;
        isFirst = false;
      }
      await sleep(pauseAfter(failures) * 1000);
    }
  }

  /** `begun` is when the request was first sent, if it may have arrived. */
  async #opened(where, kept, seen, begun, ask) {
    if (begun !== undefined) {
      const headers = { accept: 'text/event-stream', ...(seen > 0 && { 'last-event-id': String(seen) }) };
      try {
        return await this.ask('GET', kept, { headers, ended: ask.ended, isStream: true });
      } catch (error) {
        const isLate = performance.now() - begun > AGAIN * 1000;
        if (seen > 0 || isLate || error.code !== 'stream.not_found') throw error;
        // The request has not arrived.
      }
    }
    // Whether it has arrived is asked for first.
    return this.ask('POST', where, { ...ask, repeatable: false, isStream: true });
  }

  async #refused(answer) {
    try {
      return told(JSON.parse(await whole(answer, MOST_PROBLEM)));
    } catch {
      return this.#strange(answer.status);
    }
  }

  #strange(how) {
    const text = `${this.url} answered ${how}, and not as a belljar server does`;
    return new BelljarError(text, { code: 'server.answer', blame: 'machine' });
  }

  lost(error, isLate, isReached) {
    const why = error?.cause?.message || error?.message || String(error);
    const [code, text] = isLate
      ? ['server.timeout', `${this.url} did not answer in time`]
      : isReached
        ? ['server.lost', `the connection to ${this.url} was lost: ${why}`]
        : ['server.unreachable', `${this.url} cannot be reached: ${why}`];
    return new BelljarError(text, { code, blame: 'machine' });
  }
}

/** The body of an answer. The timer starts again with each piece. */
async function whole(answer, most, timer) {
  const pieces = [];
  for await (const piece of bounded(answer, most, () => timer?.refresh())) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** The error for a problem that the server tells. */
function told({ detail, code, blame, hint, reasons }) {
  if (typeof code !== 'string') throw new TypeError('no problem');
  return new BelljarError(detail, { code, blame, hint, reasons });
}

function retryAfter({ status, headers }, { code }) {
  if (status === 409 && code === 'idempotency_key') return FIRST_PAUSE;
  const seconds = headers.get('retry-after');
  if (![429, 503].includes(status) || seconds === null) return undefined;
  return Number(seconds) <= LONGEST ? Number(seconds) : undefined;
}

function pauseAfter(attempt) {
  return Math.min(FIRST_PAUSE * 2 ** attempt, LONGEST_PAUSE) * (0.75 + Math.random() / 2);
}

function field(event) {
  let name;
  let data;
  let number;
  for (const line of event.split('\n')) {
    if (line.startsWith('event:')) name = line.slice(6).trim();
    else if (line.startsWith('data:')) data = line.slice(5);
    else if (line.startsWith('id:')) number = Number(line.slice(3));
  }
  return data === undefined ? undefined : [name, data, number];
}

module.exports = { Link, told };
