// An agent of version 2 on the official TypeScript SDK. The words of a prompt say what happens:
// edit (a tool call with a patch), run (a terminal), ask (a permission request), replace (a message written twice), fail.
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk/experimental/v2";

const { agent: AGENT, client: CLIENT } = acp.methods;
const base64 = (value) => Buffer.from(value).toString("base64");
const text = (value) => ({ type: "text", text: value });
const OPTIONS = [
  { optionId: "yes", name: "Allow", kind: "allow_once" },
  { optionId: "no", name: "Reject", kind: "reject_once" },
];
let count = 0;
const cancelled = new Set();
const working = new Set();
const sessions = new Map(); // id -> { cwd, open, history }
const INVALID = -32602;
const NOT_FOUND = -32002;

async function turn(client, sessionId, words, messageId) {
  const history = sessions.get(sessionId).history;
  const update = (each) => {
    if (each.sessionUpdate.includes("message")) history.push(each);
    return client.notify(CLIENT.session.update, { sessionId, update: each });
  };
  const say = (value, id) => update({ sessionUpdate: "agent_message_chunk", messageId: id, content: text(value) });
  await update({ sessionUpdate: "user_message", messageId, content: [text(words)] });
  await update({ sessionUpdate: "state_update", state: "running" });
  const reply = `reply-${count}`;
  const end = (more) => update({ sessionUpdate: "state_update", state: "idle", ...more });
  if (words === "edit") {
    const path = "/work/a.txt";
    const patch = `diff --git ${path} ${path}\n--- ${path}\n+++ ${path}\n@@ -1,1 +1,1 @@\n-old\n+new\n`;
    const content = [{ type: "diff", changes: [{ operation: "modify", path }], patch: { format: "git_patch", text: patch } }];
    await update({ sessionUpdate: "tool_call_update", toolCallId: "edit-1", title: "Edit a.txt", kind: "edit", status: "in_progress" });
    await update({ sessionUpdate: "tool_call_update", toolCallId: "edit-1", status: "completed", content });
  } else if (words === "run") {
    await update({ sessionUpdate: "terminal_update", terminalId: "t", command: "make", cwd: "/work" });
    const content = [{ type: "terminal", terminalId: "t" }];
    await update({ sessionUpdate: "tool_call_update", toolCallId: "run-1", title: "make", kind: "execute", status: "in_progress", content });
    await update({ sessionUpdate: "terminal_output_chunk", terminalId: "t", data: base64("built\n") });
    await update({ sessionUpdate: "terminal_update", terminalId: "t", exitStatus: { exitCode: 0 } });
    await update({ sessionUpdate: "tool_call_update", toolCallId: "run-1", status: "completed" });
  } else if (words === "ask") {
    await update({ sessionUpdate: "state_update", state: "requires_action" });
    const subject = { type: "command", command: "make", cwd: process.cwd() };
    const params = { sessionId, title: "Run make?", subject, options: OPTIONS };
    const { outcome } = await client.request(CLIENT.session.requestPermission, params);
    await update({ sessionUpdate: "state_update", state: "running" });
    await say(`outcome ${outcome.outcome} ${outcome.optionId ?? ""}`.trim(), reply);
  } else if (words === "replace") {
    await say("first", reply);
    await update({ sessionUpdate: "agent_message", messageId: reply, content: [text("second")] });
  } else if (words === "fail") {
    return end({ stopReason: "error", error: { code: -32603, message: "the model failed" } });
  } else if (words === "wait") {
    await say("waiting", reply);
    while (!cancelled.has(sessionId)) await new Promise((resolve) => setTimeout(resolve, 5));
    return end({ stopReason: "cancelled" });
  } else {
    await say(`You wrote: ${words}`, reply);
  }
  await end({ stopReason: "end_turn" });
}

function known(sessionId) {
  const session = sessions.get(sessionId);
  if (!session) throw new acp.RequestError(NOT_FOUND, "no such session");
  return session;
}

acp
  .agent({ name: "ts-v2-agent" })
  .onRequest(AGENT.initialize, () => ({
    protocolVersion: 2,
    info: { name: "ts-v2-agent", version: "1" },
    capabilities: { session: { prompt: {}, mcp: { stdio: {} } } },
    authMethods: [],
  }))
  .onRequest(AGENT.session.new, ({ params }) => {
    const sessionId = `s-${++count}`;
    sessions.set(sessionId, { cwd: params.cwd, open: true, history: [] });
    return { sessionId };
  })
  .onRequest(AGENT.session.list, () => ({
    sessions: [...sessions].map(([sessionId, { cwd }]) => ({ sessionId, cwd })),
  }))
  .onRequest(AGENT.session.resume, async ({ params, client }) => {
    const session = known(params.sessionId);
    if (params.replayFrom && params.replayFrom.type !== "start") throw new acp.RequestError(INVALID, "unknown cursor");
    const update = (each) => client.notify(CLIENT.session.update, { sessionId: params.sessionId, update: each });
    if (params.replayFrom) for (const each of session.history) await update(each);
    await update({ sessionUpdate: "state_update", state: "idle" });
    session.open = true;
    return {};
  })
  .onRequest(AGENT.session.close, async ({ params }) => {
    const session = known(params.sessionId);
    cancelled.add(params.sessionId);
    while (working.has(params.sessionId)) await new Promise((resolve) => setTimeout(resolve, 5));
    session.open = false;
    return {};
  })
  .onRequest(AGENT.session.prompt, ({ params, client }) => {
    if (!known(params.sessionId).open) throw new acp.RequestError(NOT_FOUND, "no such session");
    const messageId = `user-${++count}`;
    cancelled.delete(params.sessionId);
    setImmediate(async () => {
      working.add(params.sessionId);
      await turn(client, params.sessionId, params.prompt[0].text, messageId);
      working.delete(params.sessionId);
    });
    return { messageId };
  })
  .onNotification(AGENT.session.cancel, ({ params }) => {
    cancelled.add(params.sessionId);
  })
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
