'use strict';

/** What the engine could not do; `code` is one of docs/reference/errors.md's, or `argument`. */
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

/** Thrown by a tool: its message, and no other error's, is what the code is told. */
class ToolError extends Error {
  constructor(message) {
    super(message);
    this.name = 'ToolError';
  }
}

function argument(name, problem) {
  return new BelljarError(`the argument \`${name}\` ${problem}`, {
    code: 'argument',
    blame: 'caller',
  });
}

/** The error that the addon has told as JSON. */
function told(error) {
  let found;
  try {
    found = JSON.parse(error.message);
  } catch {
    return error;
  }
  return new BelljarError(found.message, found);
}

/** What the addon promises, with its errors as `BelljarError`. */
async function asked(work) {
  try {
    return await work();
  } catch (error) {
    throw told(error);
  }
}

module.exports = { BelljarError, ToolError, argument, asked };
