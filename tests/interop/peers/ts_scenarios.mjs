// The scenarios of the TypeScript SDK's client: each a walk over one part of the protocol, reported call by call.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import * as acp from "@agentclientprotocol/sdk";

const { agent: AGENT } = acp.methods;
const EVERYTHING = {
  fs: { readTextFile: true, writeTextFile: true },
  terminal: true,
  elicitation: { form: {}, url: {} },
  session: { configOptions: { boolean: {} }, notices: {}, compaction: {} },
};
const clientInfo = { name: "ts-client", version: "1.0" };
export const hello = (agent, clientCapabilities = EVERYTHING) =>
  agent.request(AGENT.initialize, { protocolVersion: 1, clientCapabilities, clientInfo });
export const at = (cwd, more = {}) => ({ cwd, mcpServers: [], ...more });

// Initialize and one session; resolves with its id.
async function start(agent, clientCapabilities) {
  await hello(agent, clientCapabilities);
  const { sessionId } = await agent.request(AGENT.session.new, at("/tmp"));
  return sessionId;
}

export function say(agent, reporter, sessionId, text, options) {
  const prompt = [{ type: "text", text }];
  return reporter.call(text, agent.request(AGENT.session.prompt, { sessionId, prompt }, options));
}

const prompts = (...texts) => async (agent, reporter) => {
  const sessionId = await start(agent);
  for (const text of texts) await say(agent, reporter, sessionId, text);
};

// The turn says something as soon as it runs.
async function startWaiting(agent, reporter, sessionId, options) {
  const waiting = reporter.next("said");
  const turn = say(agent, reporter, sessionId, "wait", options);
  await waiting;
  return { turn };
}

async function initialize(agent, reporter) {
  await reporter.call("early", agent.request(AGENT.session.new, at("/work-a")));
  await reporter.call("initialize", hello(agent));
  await reporter.call("again", agent.request(AGENT.initialize, { protocolVersion: 99, clientCapabilities: EVERYTHING }));
}

async function sessions(agent, reporter) {
  await hello(agent);
  const call = (name, method, params) => reporter.call(name, agent.request(method, params));
  const mcpServers = [
    { name: "tools", command: "/bin/true", args: [], env: [] },
    { type: "http", name: "far", url: "https://example.com/mcp", headers: [] },
  ];
  const params = { cwd: "/work-a", mcpServers, additionalDirectories: ["/work-b"] };
  const { sessionId } = await call("new", AGENT.session.new, params);
  await call("list", AGENT.session.list, {});
  await call("list next", AGENT.session.list, { cursor: "2" });
  await call("list cwd", AGENT.session.list, { cwd: "/work-b" });
  await call("list junk", AGENT.session.list, { cursor: "junk" });
  await call("load", AGENT.session.load, at("/work-a", { sessionId: "old-1" }));
  await call("load missing", AGENT.session.load, at("/work-a", { sessionId: "nobody" }));
  await call("resume", AGENT.session.resume, at("/work-a", { sessionId: "old-2" }));
  await say(agent, reporter, "old-2", "after resume");
  await call("close", AGENT.session.close, { sessionId });
  await say(agent, reporter, sessionId, "after close");
  await call("delete", AGENT.session.delete, { sessionId: "old-3" });
  await call("delete again", AGENT.session.delete, { sessionId: "old-3" });
  await call("list after delete", AGENT.session.list, {});
}

async function auth(agent, reporter) {
  await hello(agent);
  const open = (name) => reporter.call(name, agent.request(AGENT.session.new, at("/locked")));
  await open("locked");
  await reporter.call("wrong key", agent.request(AGENT.authenticate, { methodId: "wrong" }));
  await reporter.call("authenticate", agent.request(AGENT.authenticate, { methodId: "key" }));
  await open("unlocked");
  await reporter.call("logout", agent.request(AGENT.logout, {}));
  await open("locked again");
}

async function stream(agent, reporter) {
  const sessionId = await start(agent);
  await say(agent, reporter, sessionId, "stream 120");
  const prompt = [
    { type: "text", text: "one" },
    { type: "resource_link", name: "a.txt", uri: "file:///w/a.txt" },
    { type: "image", data: "aGk=", mimeType: "image/png" },
    { type: "audio", data: "aGk=", mimeType: "audio/wav" },
    { type: "resource", resource: { uri: "file:///w/b.txt", text: "text" } },
  ];
  await reporter.call("blocks", agent.request(AGENT.session.prompt, { sessionId, prompt }));
  await say(agent, reporter, sessionId, "hello \u2028 \u{1f600} there");
  await say(agent, reporter, sessionId, "big 300000");
}

async function sideBySide(agent, reporter) {
  const first = await start(agent);
  const { sessionId: second } = await agent.request(AGENT.session.new, at("/tmp"));
  const { turn } = await startWaiting(agent, reporter, first);
  await say(agent, reporter, second, "stream 5");
  await agent.notify(AGENT.session.cancel, { sessionId: first });
  await turn;
}

// Goes away in the middle of a turn.
async function leave(agent, reporter) {
  const sessionId = await start(agent);
  const prompt = [{ type: "text", text: "wait" }];
  const said = reporter.next("said");
  agent.request(AGENT.session.prompt, { sessionId, prompt }).catch(() => {});
  await said;
}

async function settings(agent, reporter) {
  const sessionId = await start(agent);
  const mode = (name, modeId) => reporter.call(name, agent.request(AGENT.session.setMode, { sessionId, modeId }));
  const option = (name, params) => reporter.call(name, agent.request(AGENT.session.setConfigOption, { sessionId, ...params }));
  await mode("mode", "code");
  await mode("mode junk", "junk");
  await option("model", { configId: "model", value: "large" });
  await option("fast", { configId: "fast", type: "boolean", value: true });
  await option("model junk", { configId: "model", value: "junk" });
  await option("junk", { configId: "junk", value: "small" });
}

async function permission(agent, reporter) {
  const sessionId = await start(agent);
  for (reporter.permission of ["yes", "no", "cancelled"]) await say(agent, reporter, sessionId, "permission");
}

async function files(agent, reporter) {
  const sessionId = await start(agent);
  const folder = mkdtempSync(join(tmpdir(), "interop-"));
  try {
    writeFileSync(join(folder, "a.txt"), "one\ntwo\nthree\n");
    await say(agent, reporter, sessionId, `read ${folder}/a.txt 2 1`);
    await say(agent, reporter, sessionId, `read ${folder}/none`);
    await say(agent, reporter, sessionId, `write ${folder}/new.txt fresh`);
    reporter.report("disk", { text: readFileSync(join(folder, "new.txt"), "utf8") });
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function elicitation(agent, reporter) {
  const sessionId = await start(agent);
  for (reporter.elicitation of [{ action: "accept", content: { name: "Ada" } }, { action: "decline" }, { action: "cancel" }]) {
    await say(agent, reporter, sessionId, "form");
  }
  reporter.elicitation = { action: "accept" };
  await say(agent, reporter, sessionId, "url");
  await reporter.call("form", agent.request(AGENT.session.new, at("/form")));
}

async function bare(agent, reporter) {
  const sessionId = await start(agent, {});
  for (const text of ["form", "config", "notice", "compaction", "terminal"]) await say(agent, reporter, sessionId, text);
  const folder = mkdtempSync(join(tmpdir(), "interop-"));
  try {
    await say(agent, reporter, sessionId, `write ${folder}/a.txt local`);
    await say(agent, reporter, sessionId, `read ${folder}/a.txt`);
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function cancel(agent, reporter) {
  const sessionId = await start(agent);
  const stop = () => agent.notify(AGENT.session.cancel, { sessionId });
  await stop();
  const first = await startWaiting(agent, reporter, sessionId);
  await stop();
  await first.turn;
  reporter.permission = "hold";
  // The answer comes with the cancellation, or after the turn has ended.
  for (const isPrompt of [true, false]) {
    const asked = reporter.next("request");
    const turn = say(agent, reporter, sessionId, "permission");
    await asked;
    await stop();
    if (isPrompt) reporter.answerHeld();
    await turn;
    reporter.answerHeld();
  }
  await say(agent, reporter, sessionId, "still here");
  const last = await startWaiting(agent, reporter, sessionId);
  await reporter.call("close", agent.request(AGENT.session.close, { sessionId }));
  await last.turn;
}

async function cancelRequest(agent, reporter) {
  const sessionId = await start(agent);
  const slow = new AbortController();
  const answer = reporter.call("slow", agent.request("_interop/slow", {}, { cancellationSignal: slow.signal }));
  slow.abort();
  await answer;
  const prompt = new AbortController();
  const { turn } = await startWaiting(agent, reporter, sessionId, { cancellationSignal: prompt.signal });
  prompt.abort();
  await turn;
  reporter.permission = "hold";
  const aborted = reporter.next("aborted");
  await say(agent, reporter, sessionId, "withdraw");
  await aborted;
  await say(agent, reporter, sessionId, "still here");
}

async function errors(agent, reporter) {
  const sessionId = await start(agent);
  const call = (name, method, params) => reporter.call(name, agent.request(method, params));
  await say(agent, reporter, "nobody", "hello");
  await say(agent, reporter, sessionId, "error -32050");
  await say(agent, reporter, sessionId, "error 1234");
  await say(agent, reporter, sessionId, "crash");
  await call("none", "_interop/none", {});
  await call("no method", "session/none", {});
  await call("no prompt", AGENT.session.prompt, { sessionId });
  await call("wrong type", AGENT.session.prompt, { sessionId, prompt: [{ type: "text", text: 5 }] });
  await call("no cwd", AGENT.session.new, { mcpServers: [] });
  await call("relative cwd", AGENT.session.new, at("work-a"));
  await agent.notify("session/none", {});
  const { turn } = await startWaiting(agent, reporter, sessionId);
  await say(agent, reporter, sessionId, "second");
  await agent.notify(AGENT.session.cancel, { sessionId });
  await turn;
  await say(agent, reporter, sessionId, "still here");
}

async function extensions(agent, reporter) {
  const sessionId = await start(agent);
  await reporter.call("echo", agent.request("_interop/echo", { deep: { list: [1, null, "x"] } }));
  await agent.notify("_interop/note", { text: "first" });
  await agent.notify("_interop/nobody", { text: "ignored" });
  await reporter.call("notes", agent.request("_interop/notes", {}));
  await say(agent, reporter, sessionId, "extension");
}

export const SCENARIOS = {
  initialize,
  sessions,
  auth,
  stream,
  side_by_side: sideBySide,
  leave,
  tools: prompts("tool", "diff"),
  facts: prompts("think", "plan", "usage", "commands", "title", "mode", "config", "stop max_tokens", "stop refusal"),
  newer: prompts("untitle", "notice", "compaction"),
  settings,
  permission,
  files,
  terminals: prompts("terminal", "kill"),
  elicitation,
  bare,
  cancel,
  cancel_request: cancelRequest,
  errors,
  extensions,
};
