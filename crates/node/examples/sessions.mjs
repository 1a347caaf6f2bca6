// A session with a tool, its events, a fork and a file.
//
//     node examples/sessions.mjs

import { Runtime } from '../index.js';

const runtime = await Runtime.start();
const prices = { a: 1, b: 4 };
const session = await runtime.session({
  tools: {
    price: {
      description: 'The price of a thing.',
      parameters: {
        type: 'object',
        properties: { of: { type: 'string' } },
        required: ['of'],
      },
      run: async ({ of }) => prices[of],
    },
  },
});

for await (const event of session.stream('import tools\nfor k in "ab": print(tools.price(of=k))')) {
  if (event.type === 'stdout') process.stdout.write(event.text);
}

await session.set('weights', [1, 1]);
const fork = await session.fork();
const outcome = await fork.run(`
total = sum(w * tools.price(of=k) for w, k in zip(weights, "ab"))
open("report.txt", "w").write(f"the mean is {total / sum(weights)}\\n")
`);
console.log((await outcome.read('report.txt')).toString().trim());
session.close();
fork.close();
