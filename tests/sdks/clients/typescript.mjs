// What the TypeScript SDK's client sees of a server; its packages are in $PACKAGES.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.env.PACKAGES}/`);
const load = (name) => import(pathToFileURL(require.resolve(name)).href);
const { Client } = await load("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = await load("@modelcontextprotocol/sdk/client/stdio.js");

const [command, ...args] = process.argv.slice(2);
const client = new Client({ name: "typescript", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: process.env }));
const seen = { server: client.getServerVersion().name };
seen.tools = (await client.listTools()).tools.map((each) => each.name);

async function call(name, given) {
  const done = await client.callTool({ name, arguments: given });
  if (done.isError) throw new Error(done.content[0].text);
  return done;
}

seen.told = (await call("recall", { query: "pier oak", limit: 1 })).content[0].text;
await call("session", { action: "start", goal: "Mend the pier" });
seen.path = (await call("remember", { text: "Bollards are of iron." })).structuredContent.path;
await call("session", { action: "close" });
const refused = await client.callTool({ name: "recall", arguments: {} });
seen.refused = refused.isError && refused.content[0].text;
seen.resources = (await client.listResources()).resources.map((each) => each.uri);
const read = await client.readResource({ uri: "vaultmem://note/notes/pier.md" });
seen.read = read.contents[0].text;
seen.prompts = (await client.listPrompts()).prompts.map((each) => each.name);
const ref = { type: "ref/resource", uri: "vaultmem://note/{+path}" };
const done = await client.complete({ ref, argument: { name: "path", value: "notes/p" } });
seen.completed = done.completion.values;
try {
  await client.callTool({ name: "shell", arguments: {} });
} catch (error) {
  seen.unknown = error.code;
}
console.log(JSON.stringify(seen));
await client.close();
