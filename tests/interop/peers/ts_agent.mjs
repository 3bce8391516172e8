// An agent on the official TypeScript SDK that shows each protocol feature by keyword (see ../README.md).
// It knows nothing of dragoman.
import { createServer } from "node:http";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";
import { createNodeHttpHandler, createNodeWebSocketUpgradeHandler } from "@agentclientprotocol/sdk/experimental/node";
import { AcpServer } from "@agentclientprotocol/sdk/experimental/server";
import { WebSocketServer } from "ws";

const { agent: AGENT, client: CLIENT } = acp.methods;
const STORED = { "old-1": "/work-a", "old-2": "/work-a", "old-3": "/work-b" };
const PAGE = 2;
const OPTIONS = [
  { optionId: "yes", name: "Allow", kind: "allow_once" },
  { optionId: "no", name: "Reject", kind: "reject_once" },
];
const FORM = {
  mode: "form",
  message: "Who are you?",
  requestedSchema: {
    type: "object",
    properties: { name: { type: "string", title: "Name", minLength: 1 } },
    required: ["name"],
  },
};
const COMMANDS = [{ name: "review", description: "Review the changes" }];

let capabilities = {};
let isAuthenticated = false;
let created = 0;
const sessions = new Map();
const deleted = new Set();
const notes = [];
const waitingForGo = new Set();

const invalid = (data) => acp.RequestError.invalidParams(data);
const text = (value) => ({ type: "text", text: value });
const stored = () => Object.entries(STORED).filter(([id]) => !deleted.has(id));

function open(sessionId) {
  const session = { turn: new AbortController(), mode: "ask", model: "small", fast: false };
  sessions.set(sessionId, session);
  return session;
}

function active(sessionId) {
  const session = sessions.get(sessionId);
  if (!session) throw acp.RequestError.sessionNotFound(sessionId);
  return session;
}

const modes = (session) => ({
  currentModeId: session.mode,
  availableModes: [
    { id: "ask", name: "Ask" },
    { id: "code", name: "Code" },
  ],
});

function configOptions(session) {
  const values = ["small", "large"].map((value) => ({ value, name: value }));
  const model = { type: "select", id: "model", name: "Model", category: "model", currentValue: session.model, options: values };
  const fast = { type: "boolean", id: "fast", name: "Fast", currentValue: session.fast };
  return capabilities.session?.configOptions?.boolean ? [model, fast] : [model];
}

const settings = (session) => ({ modes: modes(session), configOptions: configOptions(session) });

function aborted(signal) {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}

// One turn; each method is a keyword.
class Show {
  constructor(client, sessionId, session, signal) {
    Object.assign(this, { client, sessionId, session, signal });
  }
  update(update) {
    return this.client.notify(CLIENT.session.update, { sessionId: this.sessionId, update });
  }
  say(value) {
    return this.update({ sessionUpdate: "agent_message_chunk", content: text(value) });
  }
  // Says the error's code instead of failing the turn.
  async trying(ask, then) {
    try {
      return await this.say(then(await ask()));
    } catch (error) {
      return await this.say(`error: ${error.code}`);
    }
  }
  async stream(count) {
    for (let number = 0; number < Number(count); number += 1) await this.say(`${number} `);
  }
  big(count) {
    return this.say("x".repeat(Number(count)));
  }
  think() {
    return this.update({ sessionUpdate: "agent_thought_chunk", content: text("hm") });
  }
  async plan() {
    const read = { content: "read", priority: "high", status: "pending" };
    const write = { content: "write", priority: "medium", status: "pending" };
    await this.update({ sessionUpdate: "plan", entries: [read, write] });
    await this.update({
      sessionUpdate: "plan",
      entries: [
        { ...read, status: "completed" },
        { ...write, status: "in_progress" },
      ],
    });
  }
  async tool() {
    const toolCallId = "tool-1";
    await this.update({
      sessionUpdate: "tool_call",
      toolCallId,
      title: "Read a.txt",
      name: "read_file",
      kind: "read",
      status: "pending",
      locations: [{ path: "/w/a.txt", line: 3 }],
      rawInput: { path: "/w/a.txt" },
    });
    await this.update({ sessionUpdate: "tool_call_update", toolCallId, status: "in_progress" });
    const content = [{ type: "content", content: text("3 lines") }];
    await this.update({ sessionUpdate: "tool_call_update", toolCallId, status: "completed", content, rawOutput: { lines: 3 } });
  }
  diff() {
    const content = [{ type: "diff", path: "/w/a.txt", oldText: "a", newText: "b" }];
    return this.update({ sessionUpdate: "tool_call", toolCallId: "diff-1", title: "Edit a.txt", kind: "edit", status: "completed", content });
  }
  async ask(options) {
    const params = { sessionId: this.sessionId, toolCall: { toolCallId: "asked-1" }, options: OPTIONS };
    const { outcome } = await this.client.request(CLIENT.session.requestPermission, params, options);
    if (outcome.outcome !== "selected") return outcome.outcome;
    return OPTIONS.find((option) => option.optionId === outcome.optionId).kind;
  }
  async permission() {
    await this.update({ sessionUpdate: "tool_call", toolCallId: "asked-1", title: "Delete it", kind: "delete", status: "pending" });
    await this.say(`permission: ${await this.ask({ cancellationSignal: this.signal })}`);
  }
  async withdraw(what) {
    const question = new AbortController();
    const options = { cancellationSignal: question.signal };
    const never = { sessionId: this.sessionId, path: "/never" };
    const answer = what === "read" ? this.client.request(CLIENT.fs.readTextFile, never, options) : this.ask(options);
    question.abort();
    await this.trying(() => answer, (outcome) => `withdrawn: ${outcome}`);
  }
  read(path, line, limit) {
    const window = line ? { line: Number(line), limit: Number(limit) } : {};
    const params = { sessionId: this.sessionId, path, ...window };
    return this.trying(
      () => this.client.request(CLIENT.fs.readTextFile, params, { cancellationSignal: this.signal }),
      (answer) => `read: ${answer.content}`,
    );
  }
  write(path, content) {
    const params = { sessionId: this.sessionId, path, content };
    return this.trying(() => this.client.request(CLIENT.fs.writeTextFile, params), () => "written");
  }
  async terminal() {
    const terminal = await this.client.createTerminal({
      sessionId: this.sessionId,
      command: "/bin/sh",
      args: ["-c", 'printf "$WORD"; exit 3'],
      env: [{ name: "WORD", value: "out" }],
      cwd: "/tmp",
      outputByteLimit: 1000,
    });
    const content = [{ type: "terminal", terminalId: terminal.id }];
    await this.update({ sessionUpdate: "tool_call", toolCallId: "run-1", title: "Run sh", kind: "execute", status: "in_progress", content });
    const { exitCode } = await terminal.waitForExit();
    const { output, truncated } = await terminal.currentOutput();
    await terminal.release();
    const after = await terminal.currentOutput().then(
      () => 0,
      (error) => error.code,
    );
    await this.say(JSON.stringify({ after, exitCode, output, truncated }));
  }
  async kill() {
    const terminal = await this.client.createTerminal({ sessionId: this.sessionId, command: "/bin/sleep", args: ["600"] });
    const { exitStatus } = await terminal.currentOutput();
    await terminal.kill();
    const ended = await terminal.waitForExit();
    await terminal.currentOutput();
    await terminal.release();
    await this.say(JSON.stringify({ killed: Boolean(ended.signal) || ended.exitCode !== 0, running: exitStatus == null }));
  }
  form() {
    return this.trying(
      () => this.client.request(CLIENT.elicitation.create, { sessionId: this.sessionId, ...FORM }),
      (answer) => `form: ${answer.action} ${JSON.stringify(answer.content ?? {})}`,
    );
  }
  async url() {
    const elicitationId = "url-1";
    const params = { sessionId: this.sessionId, mode: "url", message: "Please log in", elicitationId, url: "https://example.com/login" };
    const answer = await this.client.request(CLIENT.elicitation.create, params);
    await this.client.notify(CLIENT.elicitation.complete, { elicitationId });
    await this.say(`url: ${answer.action}`);
  }
  usage() {
    return this.update({ sessionUpdate: "usage_update", used: 1200, size: 200000, cost: { amount: 0.25, currency: "EUR" } });
  }
  commands() {
    const availableCommands = [...COMMANDS, { name: "plan", description: "Make a plan", input: { hint: "what for" } }];
    return this.update({ sessionUpdate: "available_commands_update", availableCommands });
  }
  async title() {
    await this.update({ sessionUpdate: "session_info_update", title: "A good title" });
  }
  async untitle() {
    await this.update({ sessionUpdate: "session_info_update", title: null });
  }
  mode() {
    this.session.mode = "code";
    return this.update({ sessionUpdate: "current_mode_update", currentModeId: "code" });
  }
  config() {
    this.session.model = "large";
    return this.update({ sessionUpdate: "config_option_update", configOptions: configOptions(this.session) });
  }
  async notice() {
    if (!capabilities.session?.notices) return this.say("no notices");
    return this.update({ sessionUpdate: "notice", severity: "warning", title: "Nearly full", description: "90 %" });
  }
  async compaction() {
    if (!capabilities.session?.compaction) return this.say("no compaction");
    const compactionId = "c-1";
    await this.update({ sessionUpdate: "compaction_update", compactionId, status: "in_progress" });
    await this.update({ sessionUpdate: "compaction_summary_chunk", compactionId, content: text("short") });
    return this.update({ sessionUpdate: "compaction_update", compactionId, status: "completed" });
  }
  async wait() {
    await this.say("waiting");
    await aborted(this.signal);
  }
  async extension() {
    await this.client.notify("_interop/told", { x: 1 });
    const { sum } = await this.client.request("_interop/add", { a: 1, b: 2 });
    const code = await this.client.request("_interop/none", {}).then(
      () => 0,
      (error) => error.code,
    );
    await this.say(`add: ${sum}, none: ${code}`);
  }
  error(code) {
    throw new acp.RequestError(Number(code), "asked for", { asked: Number(code) });
  }
  crash() {
    throw new Error("secret text");
  }
  async stop(reason) {
    return reason;
  }
  die() {
    process.stderr.write("last words\n", () => process.exit(3));
    return aborted(this.signal);
  }
  unknown() {
    return this.update({ sessionUpdate: "_interop_update", depth: { of: [1, 2.5, "three"] } });
  }
}

const KEYWORDS = new Set(Object.getOwnPropertyNames(Show.prototype).filter((name) => !["constructor", "update", "say", "ask", "trying"].includes(name)));

async function prompt({ params, client, signal }) {
  const session = active(params.sessionId);
  session.turn = new AbortController();
  // Both ways to end a turn: session/cancel and $/cancel_request.
  const show = new Show(client, params.sessionId, session, AbortSignal.any([session.turn.signal, signal]));
  if (params.prompt.length > 1) {
    await show.say(`blocks: ${params.prompt.map((block) => block.type).join(",")}`);
    return { stopReason: "end_turn" };
  }
  const [word, ...rest] = params.prompt[0].text.split(" ");
  const reason = KEYWORDS.has(word) ? await show[word](...rest) : await show.say(`You said: ${params.prompt[0].text}`);
  return { stopReason: show.signal.aborted ? "cancelled" : (reason ?? "end_turn") };
}

async function newSession({ params, client, requestId }) {
  if (params.cwd === "/form") {
    // The session does not exist yet: the question belongs to this request.
    const answer = await client.request(CLIENT.elicitation.create, { requestId, ...FORM });
    if (answer.action !== "accept") throw invalid({ action: answer.action });
  }
  if (params.cwd === "/locked" && !isAuthenticated) throw acp.RequestError.authRequired({ methods: ["key"] });
  created += 1;
  const sessionId = `s-${created}`;
  const session = open(sessionId);
  // Sent before the answer that names the session: clients have to keep it.
  const update = { sessionUpdate: "available_commands_update", availableCommands: COMMANDS };
  await client.notify(CLIENT.session.update, { sessionId, update });
  return { sessionId, ...settings(session) };
}

async function loadSession({ params, client }) {
  const { sessionId } = params;
  if (!stored().some(([id]) => id === sessionId)) throw acp.RequestError.sessionNotFound(sessionId);
  const session = open(sessionId);
  const update = (value) => client.notify(CLIENT.session.update, { sessionId, update: value });
  await update({ sessionUpdate: "user_message_chunk", content: text("earlier question"), messageId: "m-1" });
  await update({ sessionUpdate: "agent_message_chunk", content: text("earlier answer"), messageId: "m-2" });
  await update({ sessionUpdate: "tool_call", toolCallId: "old-tool", title: "Earlier tool", kind: "read", status: "completed" });
  return settings(session);
}

function resumeSession({ params }) {
  if (!stored().some(([id]) => id === params.sessionId)) throw acp.RequestError.sessionNotFound(params.sessionId);
  return settings(open(params.sessionId));
}

function listSessions({ params }) {
  const { cwd, cursor } = params;
  if (cursor != null && cursor !== String(PAGE)) throw invalid({ cursor });
  const start = Number(cursor ?? 0);
  const found = stored()
    .filter(([, at]) => cwd == null || at === cwd)
    .map(([sessionId, at]) => ({ sessionId, cwd: at, title: sessionId }));
  const more = start + PAGE < found.length ? { nextCursor: String(start + PAGE) } : {};
  return { sessions: found.slice(start, start + PAGE), ...more };
}

function setConfigOption({ params }) {
  const session = active(params.sessionId);
  const { configId, value } = params;
  if (configId === "model" && ["small", "large"].includes(value)) session.model = value;
  else if (configId === "fast" && typeof value === "boolean") session.fast = value;
  else throw invalid({ configId });
  return { configOptions: configOptions(session) };
}

async function slow({ signal }) {
  const go = new Promise((resolve) => waitingForGo.add(resolve));
  await Promise.race([go, aborted(signal)]);
  if (signal.aborted) throw acp.RequestError.requestCancelled();
  return { done: true };
}

const raw = (params) => params ?? {};

const app = acp
  .agent({ name: "ts-agent" })
  .onRequest(AGENT.initialize, ({ params }) => {
    capabilities = params.clientCapabilities ?? {};
    return {
      protocolVersion: acp.PROTOCOL_VERSION,
      agentInfo: { name: "ts-agent", title: "TypeScript SDK agent", version: "1.0" },
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true, audio: true, embeddedContext: true },
        mcpCapabilities: { http: true, sse: false },
        sessionCapabilities: { list: {}, resume: {}, close: {}, delete: {}, additionalDirectories: {} },
        auth: { logout: {} },
      },
      authMethods: [{ id: "key", name: "Key" }],
    };
  })
  .onRequest(AGENT.authenticate, ({ params }) => {
    if (params.methodId !== "key") throw invalid({ methodId: params.methodId });
    isAuthenticated = true;
  })
  .onRequest(AGENT.logout, () => {
    isAuthenticated = false;
  })
  .onRequest(AGENT.session.new, newSession)
  .onRequest(AGENT.session.load, loadSession)
  .onRequest(AGENT.session.resume, resumeSession)
  .onRequest(AGENT.session.list, listSessions)
  .onRequest(AGENT.session.close, ({ params }) => {
    active(params.sessionId).turn.abort();
    sessions.delete(params.sessionId);
  })
  .onRequest(AGENT.session.delete, ({ params }) => {
    deleted.add(params.sessionId);
  })
  .onRequest(AGENT.session.setMode, ({ params }) => {
    if (!["ask", "code"].includes(params.modeId)) throw invalid({ modeId: params.modeId });
    active(params.sessionId).mode = params.modeId;
  })
  .onRequest(AGENT.session.setConfigOption, setConfigOption)
  .onRequest(AGENT.session.prompt, prompt)
  .onNotification(AGENT.session.cancel, ({ params }) => sessions.get(params.sessionId)?.turn.abort())
  .onRequest("_interop/echo", raw, ({ params }) => params)
  .onRequest("_interop/slow", raw, slow)
  .onRequest("_interop/notes", raw, () => ({ notes }))
  .onNotification("_interop/note", raw, ({ params }) => {
    notes.push(params);
    if (params.text === "go") for (const resolve of waitingForGo) resolve();
  });

// On a port if that is asked for, else on stdio.
if (process.argv.includes("--listen")) {
  const server = new AcpServer({ agent: app });
  const http = createServer(createNodeHttpHandler(server));
  http.on("upgrade", createNodeWebSocketUpgradeHandler(server, new WebSocketServer({ noServer: true })));
  http.listen(0, "127.0.0.1", () => process.stdout.write(`http://127.0.0.1:${http.address().port}/acp\n`));
} else {
  app.connect(acp.ndJsonStream(Writable.toWeb(process.stdout), Readable.toWeb(process.stdin)));
}
