'use strict';

/** An error of the engine; `code` is listed in docs/reference/errors.md, or `argument`. */
class BelljarError extends Error {
  constructor(message, { code, blame, hint, reasons } = {}) {
    super(message);
    this.name = 'BelljarError';
    this.code = code;
    this.blame = blame;
    this.hint = hint;
    if (reasons !== undefined) this.reasons = reasons;
  }
}

/** Thrown by a tool to show the message to the code. Messages of other errors are not shown. */
class ToolError extends Error {
  constructor(message) {
    super(message);
    this.name = 'ToolError';
  }
}

/** The code of a run failed: what `raiseForError()` of its outcome throws. */
class RunError extends Error {
  constructor(outcome) {
    super(outcome.error);
    this.name = 'RunError';
    this.outcome = outcome;
  }
}

function argument(name, problem) {
  return new BelljarError(`the argument \`${name}\` ${problem}`, {
    code: 'argument',
    blame: 'caller',
  });
}

/** Makes an error from the addon's JSON. */
function told(error) {
  if (error instanceof BelljarError) return error;
  let found;
  try {
    found = JSON.parse(error.message);
  } catch {
    return error;
  }
  return new BelljarError(found.message, found);
}

/** Awaits a promise of the addon, converting errors to `BelljarError`. */
async function asked(work) {
  try {
    return await work();
  } catch (error) {
    throw told(error);
  }
}

module.exports = { BelljarError, RunError, ToolError, argument, asked };
