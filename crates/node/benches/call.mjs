// Overhead of a run through Node, in microseconds: the median of the given number of runs.

import { Runtime } from '../index.js';

const count = Number(process.argv[2]);
const runtime = await Runtime.start();
const times = [];
for (let k = 0; k < count; k++) {
  const begun = performance.now();
  await runtime.run('print(1)', { image: 'data' });
  times.push(performance.now() - begun);
}
times.sort((a, b) => a - b);
console.log((times[count >> 1] * 1000).toFixed(0));
