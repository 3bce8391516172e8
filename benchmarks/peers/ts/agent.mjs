// The official TypeScript SDK, agent side, with the builder its README teaches.
import { Readable, Writable } from "node:stream";
import { agent, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const LINE = "the quick brown fox jumps over the lazy dog and runs on; again" + " \n";
const MAX_MESSAGE_BYTES = 128 * 1024 * 1024;
const PATH = "/tmp/file.py";

const chunkText = (size) => LINE.repeat(Math.floor(size / LINE.length) + 1).slice(0, size);
const chunk = (text) => ({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });

let sessions = 0;
const cancelled = new Set();

async function stream(client, sessionId, count, size) {
  const text = chunkText(size);
  for (let i = 0; i < count; i++) {
    await client.notify(methods.client.session.update, { sessionId, update: chunk(text) });
  }
  return "end_turn";
}

async function tools(client, sessionId, count, perCall) {
  const oldText = LINE.repeat(32);
  const newText = LINE.repeat(32);
  const send = (update) => client.notify(methods.client.session.update, { sessionId, update });
  for (let number = 0; number < count / perCall; number++) {
    const toolCallId = `call-${number}`;
    await send({ sessionUpdate: "tool_call", toolCallId, title: "Edit file", kind: "edit", status: "pending" });
    await send({ sessionUpdate: "tool_call_update", toolCallId, status: "in_progress" });
    for (let i = 0; i < perCall; i++) {
      const content = [{ type: "diff", path: PATH, newText, oldText }];
      await send({ sessionUpdate: "tool_call_update", toolCallId, content });
    }
    await send({ sessionUpdate: "tool_call_update", toolCallId, status: "completed" });
  }
  return "end_turn";
}

async function read(client, sessionId, count) {
  let total = 0;
  for (let i = 0; i < count; i++) {
    const answer = await client.request(methods.client.fs.readTextFile, { sessionId, path: PATH });
    total += answer.content.length;
  }
  return "end_turn";
}

async function write(client, sessionId, size) {
  const content = LINE.repeat(Math.floor(size / LINE.length));
  await client.request(methods.client.fs.writeTextFile, { sessionId, path: PATH, content });
  return "end_turn";
}

async function forever(client, sessionId, size) {
  const text = chunkText(size);
  cancelled.delete(sessionId);
  while (!cancelled.has(sessionId)) {
    await client.notify(methods.client.session.update, { sessionId, update: chunk(text) });
  }
  return "cancelled";
}

const behaviours = { stream, tools, read, write, forever };

agent({ name: "ts" })
  .onRequest(methods.agent.initialize, () => ({
    protocolVersion: PROTOCOL_VERSION,
    agentCapabilities: {},
    agentInfo: { name: "ts", version: "1" },
  }))
  .onRequest(methods.agent.session.new, () => ({ sessionId: `session-${++sessions}` }))
  .onRequest(methods.agent.session.prompt, async ({ params, client }) => {
    const [word, ...numbers] = params.prompt[0].text.split(" ");
    const behave = behaviours[word];
    return { stopReason: behave ? await behave(client, params.sessionId, ...numbers.map(Number)) : "end_turn" };
  })
  .onNotification(methods.agent.session.cancel, ({ params }) => {
    cancelled.add(params.sessionId);
  })
  .connect(
    ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin), {
      maxMessageBytes: MAX_MESSAGE_BYTES,
    }),
  );
