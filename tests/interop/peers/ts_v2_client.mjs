// A client of version 2 on the official TypeScript SDK: starts an agent, sends prompts, and prints each update as a line.
// node ts_v2_client.mjs PROMPT... -- COMMAND
import { spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk/experimental/v2";

const { agent: AGENT, client: CLIENT } = acp.methods;
const cut = process.argv.indexOf("--");
const prompts = process.argv.slice(2, cut);
const [program, ...args] = process.argv.slice(cut + 1);
const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
const report = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);
let idle = () => {};

await acp
  .client({ name: "ts-v2-client" })
  .onNotification(CLIENT.session.update, ({ params }) => {
    report(params.update);
    if (params.update.sessionUpdate === "state_update" && params.update.state === "idle") idle();
  })
  .onRequest(CLIENT.session.requestPermission, ({ params }) => {
    report({ asked: params.title, subject: params.subject?.type });
    const option = params.options.find((each) => each.kind === "reject_once") ?? params.options[0];
    return { outcome: { outcome: "selected", optionId: option.optionId } };
  })
  .connectWith(acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), async (agent) => {
    const info = { name: "ts-v2-client", version: "1" };
    const ready = await agent.request(AGENT.initialize, { protocolVersion: 2, info, capabilities: {} });
    report({ version: ready.protocolVersion });
    const { sessionId } = await agent.request(AGENT.session.new, { cwd: process.cwd() });
    for (const words of prompts) {
      const ended = new Promise((resolve) => (idle = resolve));
      const response = await agent.request(AGENT.session.prompt, { sessionId, prompt: [{ type: "text", text: words }] });
      report({ accepted: response.messageId });
      await ended;
    }
  });
child.stdin.end();
await once(child, "close");
