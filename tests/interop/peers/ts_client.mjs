// A client on the official TypeScript SDK: walks named scenarios against an agent, reports what it saw (see ../README.md).
// It knows nothing of dragoman. The handlers report and answer; ts_scenarios.mjs and ts_coding.mjs hold the walks.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import WebSocket from "ws";
import { CODING } from "./ts_coding.mjs";
import { SCENARIOS } from "./ts_scenarios.mjs";

const WALKS = { ...SCENARIOS, ...CODING };
const SCENARIO_MS = 12_000;
const { client: CLIENT } = acp.methods;

// Real child processes behind terminal ids.
class Terminals {
  running = new Map();
  create({ command, args = [], env = [], cwd }) {
    const variables = Object.fromEntries(env.map(({ name, value }) => [name, value]));
    const child = spawn(command, args, { cwd: cwd ?? undefined, env: { ...process.env, ...variables }, stdio: ["ignore", "pipe", "inherit"] });
    const terminal = { child, output: "", exitStatus: undefined };
    child.stdout.on("data", (data) => (terminal.output += data));
    terminal.ended = once(child, "close").then(([exitCode, signal]) => (terminal.exitStatus = { exitCode, signal }));
    const terminalId = `t-${child.pid}`;
    this.running.set(terminalId, terminal);
    return terminalId;
  }
  find(terminalId) {
    const terminal = this.running.get(terminalId);
    if (!terminal) throw acp.RequestError.resourceNotFound(terminalId);
    return terminal;
  }
  release(terminalId) {
    this.find(terminalId).child.kill("SIGKILL");
    this.running.delete(terminalId);
  }
  releaseAll() {
    for (const terminalId of [...this.running.keys()]) this.release(terminalId);
  }
}

// Answers the agent as the scenario set it up, and reports every question.
class Reporter {
  permission = "yes";
  elicitation = { action: "decline" };
  terminals = new Terminals();
  waiting = new Map();
  answerHeld = () => {};
  constructor(scenario) {
    this.scenario = scenario;
  }
  report(event, facts = {}) {
    process.stdout.write(`${JSON.stringify({ scenario: this.scenario, event, ...facts })}\n`);
    this.wake(event);
  }
  wake(event) {
    this.waiting.get(event)?.splice(0).forEach((wake) => wake());
  }
  // Resolves at the next report of this event, or when the agent has `said` something.
  next(event) {
    return new Promise((resolve) => this.waiting.set(event, [...(this.waiting.get(event) ?? []), resolve]));
  }
  async call(name, promise) {
    try {
      const result = await promise;
      this.report("result", { call: name, result });
      return result;
    } catch (error) {
      if (!(error instanceof acp.RequestError)) throw error;
      this.report("error", { call: name, code: error.code, message: error.message, data: error.data ?? null });
      return undefined;
    }
  }
  async askPermission({ params, signal }) {
    this.report("request", { method: CLIENT.session.requestPermission, toolCall: params.toolCall, options: params.options });
    if (this.permission === "hold") {
      const released = new Promise((resolve) => (this.answerHeld = resolve));
      signal.addEventListener("abort", () => this.answerHeld(), { once: true });
      // A question taken back at once is aborted before this handler runs.
      if (!signal.aborted) await released;
      if (signal.aborted) this.report("aborted", { method: CLIENT.session.requestPermission });
    } else if (this.permission !== "cancelled") {
      return { outcome: { outcome: "selected", optionId: this.permission } };
    }
    return { outcome: { outcome: "cancelled" } };
  }
  read({ params }) {
    const { path, line, limit } = params;
    this.report("request", { method: CLIENT.fs.readTextFile, path, line: line ?? null, limit: limit ?? null });
    if (!existsSync(path)) throw acp.RequestError.resourceNotFound(path);
    const lines = readFileSync(path, "utf8").split(/(?<=\n)/);
    const start = (line ?? 1) - 1;
    return { content: lines.slice(start, limit == null ? undefined : start + limit).join("") };
  }
  app() {
    const seen = (method, answer) => (context) => {
      this.report("request", { method, ...context.params });
      return answer(context.params, context);
    };
    const terminal = (id) => this.terminals.find(id);
    return acp
      .client({ name: "ts-client" })
      .onNotification(CLIENT.session.update, ({ params }) => {
        this.report("update", { session: params.sessionId, update: params.update });
        if (params.update.sessionUpdate === "agent_message_chunk") this.wake("said");
      })
      .onRequest(CLIENT.session.requestPermission, (context) => this.askPermission(context))
      .onRequest(CLIENT.fs.readTextFile, (context) => this.read(context))
      .onRequest(CLIENT.fs.writeTextFile, seen(CLIENT.fs.writeTextFile, ({ path, content }) => writeFileSync(path, content)))
      .onRequest(CLIENT.terminal.create, seen(CLIENT.terminal.create, (params) => ({ terminalId: this.terminals.create(params) })))
      .onRequest(CLIENT.terminal.output, seen(CLIENT.terminal.output, ({ terminalId }) => {
        const { output, exitStatus } = terminal(terminalId);
        return { output, truncated: false, exitStatus };
      }))
      .onRequest(CLIENT.terminal.waitForExit, seen(CLIENT.terminal.waitForExit, ({ terminalId }) => terminal(terminalId).ended))
      .onRequest(CLIENT.terminal.kill, seen(CLIENT.terminal.kill, ({ terminalId }) => void terminal(terminalId).child.kill("SIGKILL")))
      .onRequest(CLIENT.terminal.release, seen(CLIENT.terminal.release, ({ terminalId }) => this.terminals.release(terminalId)))
      .onRequest(CLIENT.elicitation.create, seen(CLIENT.elicitation.create, () => this.elicitation))
      .onNotification(CLIENT.elicitation.complete, ({ params }) => this.report("notification", { method: CLIENT.elicitation.complete, ...params }))
      .onRequest("_interop/add", (params) => params, seen("_interop/add", ({ a, b }) => ({ sum: a + b })))
      .onNotification("_interop/told", (params) => params, ({ params }) => this.report("notification", { method: "_interop/told", params }));
  }
}

function deadline(milliseconds) {
  let timer;
  const passed = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("scenario timed out")), milliseconds);
  });
  return { passed, clear: () => clearTimeout(timer) };
}

// Over a network: the agent is there already, and stays.
async function walkTo(name, url) {
  const reporter = new Reporter(name);
  const limit = deadline(SCENARIO_MS);
  const headers = { Authorization: `Bearer ${process.env.ACP_TOKEN}` };
  const isHttp = url.startsWith("http");
  const stream = isHttp ? createHttpStream(url, { headers }) : createWebSocketStream(url, { headers, WebSocket });
  try {
    const run = reporter.app().connectWith(stream, (agent) => WALKS[name](agent, reporter));
    await Promise.race([run, limit.passed]);
  } catch (error) {
    reporter.report("failed", { error: String(error?.stack ?? error) });
  } finally {
    limit.clear();
    reporter.terminals.releaseAll();
    reporter.report("exit", { code: 0 });
  }
}

async function walk(name, command) {
  const reporter = new Reporter(name);
  const [program, ...args] = command.map((part) => part.replace("{scenario}", name));
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  const exited = once(child, "close");
  const limit = deadline(SCENARIO_MS);
  try {
    const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));
    const run = reporter.app().connectWith(stream, (agent) => WALKS[name](agent, reporter));
    await Promise.race([run, limit.passed]);
  } catch (error) {
    reporter.report("failed", { error: String(error?.stack ?? error) });
  } finally {
    limit.clear();
    reporter.terminals.releaseAll();
    child.stdin.end();
    // An agent that outlives its stdin is killed, and the report says so.
    const stuck = setTimeout(() => child.kill("SIGKILL"), 5_000);
    const [code] = await exited;
    clearTimeout(stuck);
    reporter.report("exit", { code });
  }
}

const cut = process.argv.indexOf("--");
const command = process.argv.slice(cut + 1);
const isRemote = /^(http|ws):/.test(command[0]);
for (const name of process.argv.slice(2, cut)) await (isRemote ? walkTo(name, command[0]) : walk(name, command));
if (isRemote) process.exit(0); // streams of a server that is still there keep Node alive
