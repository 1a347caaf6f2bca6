'use strict';

const { argument } = require('./errors.js');

/**
 * The events of a run as they happen, once, and its outcome. The run starts immediately; leaving
 * the loop interrupts it.
 */
class EventStream {
  #waiting = [];
  #heard = [];
  #stop = new AbortController();
  #end;

  /** `begin(onEvent, signal)` starts the run. */
  constructor(begin, signal) {
    if (signal !== undefined && !(signal instanceof AbortSignal)) {
      throw argument('signal', 'is not an AbortSignal');
    }
    const own = this.#stop.signal;
    const stop = signal === undefined ? own : AbortSignal.any([signal, own]);
    this.outcome = begin((event) => this.#tell(event), stop);
    this.outcome.then(
      () => this.#finish(Promise.resolve({ done: true, value: undefined })),
      () => this.#finish(this.outcome)
    );
  }

  #tell(event) {
    const waiting = this.#waiting.shift();
    if (waiting === undefined) this.#heard.push(event);
    else waiting({ done: false, value: event });
  }

  #finish(end) {
    this.#end = end;
    for (const waiting of this.#waiting.splice(0)) waiting(this.#taken());
  }

  /** The end. Rejects once, like a generator. */
  #taken() {
    const end = this.#end;
    this.#end = Promise.resolve({ done: true, value: undefined });
    return end;
  }

  next() {
    if (this.#heard.length > 0) {
      return Promise.resolve({ done: false, value: this.#heard.shift() });
    }
    if (this.#end !== undefined) return this.#taken();
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  async return(value) {
    this.#stop.abort();
    this.#heard.length = 0;
    await this.outcome.catch(() => undefined);
    return { done: true, value };
  }

  [Symbol.asyncIterator]() {
    return this;
  }
}

module.exports = { EventStream };
