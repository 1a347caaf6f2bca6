// Compiled by a test and never run: each line must be accepted, unless it expects an error.

import { BelljarError, connect, Event, Runtime, Session, ToolError, type Outcome } from 'belljar';

async function accepted(): Promise<void> {
  const runtime: Runtime = await Runtime.start({ concurrency: 2, onProgress: (step) => step });
  const server: Runtime = connect({ url: 'https://example.org', key: 'k', timeout: null });
  await server.run('1');
  const outcome: Outcome = await runtime.run('print(1)', {
    timeout: 2,
    memory_mb: 256,
    files: { 'a.csv': 'x,y\n', b: Buffer.from([1]) },
    set: { n: 3n, when: new Date(), rows: [{ a: 1 }] },
    capture: { figure_format: 'svg' },
    signal: AbortSignal.timeout(1000),
    tools: {
      add: {
        parameters: { type: 'object' },
        run: ({ a, b }: { a: number; b: number }) => a + b,
      },
      fail: async () => {
        throw new ToolError('no');
      },
    },
  });
  const bytes: Buffer = await outcome.read(outcome.files[0].path);
  const line: number | null | undefined = outcome.error_detail?.line;
  for await (const event of runtime.stream('print(1)')) {
    const seen: Event = event;
    console.log(seen.type, seen.text, bytes.length, line);
  }
  const session: Session = await runtime.session({ idle: 60, history: { runs: 5, bytes: 1 << 20 } });
  const fork: Session = await session.fork();
  const entries = await fork.files.list('', { depth: 2 });
  console.log(entries[0].modified?.getTime());
  try {
    await runtime.restore('x', { tools: { f: () => 1 } });
    await runtime.restore('x', { mounts: { '/data': '/srv' }, idle: 5, policy: 'strict', lease: { seconds: 9 } });
  } catch (error) {
    if (error instanceof BelljarError) console.log(error.code, error.hint);
  }
}

async function refused(runtime: Runtime, outcome: Outcome): Promise<void> {
  // @ts-expect-error an unknown option
  await runtime.run('', { tiemout: 1 });
  // @ts-expect-error a number of seconds
  await runtime.run('', { timeout: '1' });
  // @ts-expect-error an outcome is frozen
  outcome.stdout = '';
  // @ts-expect-error runtimes are started
  new Runtime();
}

export { accepted, refused };
