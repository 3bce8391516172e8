// A client of version 2 on the official TypeScript SDK that uses an agent in all ordinary ways, and reports in lines of JSON.
// node ts_v2_walk.mjs CONFIG -- COMMAND... | URL
// CONFIG is JSON: cwd, frames (a file for every message), the prompts plain, permission, slow and endless, and isNew (resume
// on a new connection).
import { spawn } from "node:child_process";
import { once } from "node:events";
import { appendFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk/experimental/v2";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import WebSocket from "ws";

const { agent: AGENT, client: CLIENT } = acp.methods;
const cut = process.argv.indexOf("--");
const config = JSON.parse(process.argv[2]);
const command = process.argv.slice(cut + 1);
const report = (event, facts = {}) => process.stdout.write(`${JSON.stringify({ event, ...facts })}\n`);
const info = { name: "ts-v2-walk", version: "1" };
const text = (words) => [{ type: "text", text: words }];

// A stream whose messages are written to the file of frames.
function watched(stream) {
  const note = (from) =>
    new TransformStream({
      transform(message, controller) {
        appendFileSync(config.frames, `${JSON.stringify({ from, message })}\n`);
        controller.enqueue(message);
      },
    });
  const outgoing = note("client");
  outgoing.readable.pipeTo(stream.writable).catch(() => {});
  return { readable: stream.readable.pipeThrough(note("agent")), writable: outgoing.writable };
}

function open() {
  const headers = { authorization: `Bearer ${process.env.ACP_TOKEN}` };
  if (command[0].startsWith("ws")) {
    return [createWebSocketStream(command[0], { WebSocket, headers }), async () => {}];
  }
  if (command[0].startsWith("http")) return [createHttpStream(command[0], { headers }), async () => {}];
  const child = spawn(command[0], command.slice(1), { cwd: config.cwd, stdio: ["pipe", "pipe", "inherit"] });
  const closed = once(child, "close");
  const end = async () => {
    child.stdin.end();
    const [code] = await closed;
    report("exit", { code });
  };
  return [acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout)), end];
}

const waiting = [];
const seen = [];
// Resolves with the next update that `isIt` accepts.
const next = (isIt) => new Promise((resolve) => waiting.push({ isIt, resolve }));
function note(update) {
  seen.push(update);
  report("update", { update });
  for (const each of [...waiting]) {
    if (each.isIt(update)) {
      waiting.splice(waiting.indexOf(each), 1);
      each.resolve(update);
    }
  }
}
const isIdle = (update) => update.sessionUpdate === "state_update" && update.state === "idle";
const isText = (update) => update.sessionUpdate === "agent_message_chunk";

async function connected(walk) {
  const [stream, end] = open();
  await acp
    .client({ name: "ts-v2-walk" })
    .onNotification(CLIENT.session.update, ({ params }) => note(params.update))
    .onRequest(CLIENT.session.requestPermission, ({ params }) => {
      report("asked", { title: params.title, subject: params.subject?.type });
      const option = params.options.find((each) => each.kind === "allow_once") ?? params.options[0];
      return { outcome: { outcome: "selected", optionId: option.optionId } };
    })
    .connectWith(watched(stream), async (agent) => {
      const ready = await agent.request(AGENT.initialize, { protocolVersion: 2, info, capabilities: {} });
      report("initialized", { result: ready });
      await walk(agent);
    });
  await end();
}

async function prompt(agent, sessionId, words) {
  try {
    const { messageId } = await agent.request(AGENT.session.prompt, { sessionId, prompt: text(words) });
    report("accepted", { words, messageId });
  } catch (error) {
    report("refused", { words, code: error.code });
  }
}

async function turn(agent, sessionId, words) {
  const idle = next(isIdle);
  await prompt(agent, sessionId, words);
  await idle;
}

async function comeBack(agent, sessionId) {
  const before = seen.length;
  await agent.request(AGENT.session.resume, { sessionId, cwd: config.cwd, replayFrom: { type: "start" } });
  report("replayed", { updates: seen.slice(before) });
  await turn(agent, sessionId, config.plain);
  await agent.request(AGENT.session.close, { sessionId });
  report("closed");
}

let sessionId;
await connected(async (agent) => {
  ({ sessionId } = await agent.request(AGENT.session.new, { cwd: config.cwd }));
  await turn(agent, sessionId, config.plain);
  await turn(agent, sessionId, config.permission);
  // A prompt that runs, and one behind it: each has its own turn.
  let idles = 0;
  const both = next((update) => isIdle(update) && ++idles === 2);
  const started = next(isText);
  const first = prompt(agent, sessionId, config.slow);
  await started;
  const second = prompt(agent, sessionId, config.plain);
  await Promise.all([first, second, both]);
  // A turn that is cancelled.
  const ended = next(isIdle);
  const talking = next(isText);
  await prompt(agent, sessionId, config.endless);
  await talking;
  await agent.notify(AGENT.session.cancel, { sessionId });
  await ended;
  const listed = await agent.request(AGENT.session.list, {});
  report("listed", { ids: listed.sessions.map((each) => each.sessionId).includes(sessionId) });
  if (!config.isNew) await comeBack(agent, sessionId);
});
if (config.isNew) await connected((agent) => comeBack(agent, sessionId));
process.exit(0);
