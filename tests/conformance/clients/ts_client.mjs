// A one-prompt client on the official TypeScript SDK, judged by `dragoman check client`.
// `ts_client.mjs FOLDER AGENT` opens a session in FOLDER, sends one prompt and leaves. It offers the files below
// FOLDER, as a user of the SDK would write that, and leaves everything else to the SDK. It does not depend on dragoman.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const { client: CLIENT, agent: AGENT } = acp.methods;
const [folder, program, ...args] = process.argv.slice(2);

function requireBelow(path) {
  if (!path.startsWith(`${folder}/`)) throw acp.RequestError.invalidParams({ path });
}

const app = acp
  .client({ name: "ts-one-prompt" })
  .onNotification(CLIENT.session.update, () => {})
  .onRequest(CLIENT.session.requestPermission, ({ params }) => {
    const allowed = params.options.find((option) => option.kind === "allow_once");
    return { outcome: allowed ? { outcome: "selected", optionId: allowed.optionId } : { outcome: "cancelled" } };
  })
  .onRequest(CLIENT.fs.readTextFile, ({ params: { path, line, limit } }) => {
    requireBelow(path);
    if (!existsSync(path)) throw acp.RequestError.resourceNotFound(path);
    const lines = readFileSync(path, "utf8").split(/(?<=\n)/);
    const start = (line ?? 1) - 1;
    return { content: lines.slice(start, limit == null ? undefined : start + limit).join("") };
  })
  .onRequest(CLIENT.fs.writeTextFile, ({ params: { path, content } }) => {
    requireBelow(path);
    writeFileSync(path, content);
  });

const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
const exited = once(child, "close");
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
try {
  await app.connectWith(stream, async (agent) => {
    await agent.request(AGENT.initialize, {
      protocolVersion: acp.PROTOCOL_VERSION,
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
      clientInfo: { name: "ts-one-prompt", version: "1" },
    });
    const { sessionId } = await agent.request(AGENT.session.new, { cwd: folder, mcpServers: [] });
    await agent.request(AGENT.session.prompt, { sessionId, prompt: [{ type: "text", text: "Hello" }] });
  });
} catch (error) {
  console.error(String(error?.stack ?? error));
  process.exitCode = 1;
} finally {
  child.stdin.end();
  await exited;
}
