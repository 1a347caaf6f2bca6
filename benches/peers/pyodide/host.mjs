// Pyodide for drivers.py: a request of one line of JSON, an answer of one line.

import { createInterface } from 'node:readline';
import { loadPyodide, version } from 'pyodide';

const sessions = new Map();

async function made() {
  const written = [];
  const pyodide = await loadPyodide();
  pyodide.setStdout({ batched: (line) => written.push(line + '\n') });
  return { pyodide, written };
}

async function run({ pyodide, written }, code) {
  await pyodide.runPythonAsync(code);
  return written.splice(0).join('');
}

async function answer({ session, code }) {
  if (code === undefined) return version;
  if (session === undefined) return run(await made(), code);
  if (!sessions.has(session)) sessions.set(session, await made());
  return run(sessions.get(session), code);
}

for await (const line of createInterface({ input: process.stdin })) {
  let told;
  try {
    told = { output: await answer(JSON.parse(line)) };
  } catch (error) {
    told = { error: String(error).slice(-500) };
  }
  process.stdout.write(JSON.stringify(told) + '\n');
}
