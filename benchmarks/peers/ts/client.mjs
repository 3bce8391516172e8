// The official TypeScript SDK, client side: a registered handler, called once per update.
import { spawn } from "node:child_process";
import { readFileSync, readSync, readdirSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { client, methods, ndJsonStream, PROTOCOL_VERSION } from "@agentclientprotocol/sdk";

const LINE = "the quick brown fox jumps over the lazy dog and runs on; again" + " \n";
const MAX_MESSAGE_BYTES = 128 * 1024 * 1024;
const MIB = 1024 * 1024;

const [name, paramsJson, ...command] = process.argv.slice(2);
const params = JSON.parse(paramsJson);
const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });

function cpuSeconds(pid) {
  let total = 0;
  for (const task of readdirSync(`/proc/${pid}/task`)) {
    total += Number(readFileSync(`/proc/${pid}/task/${task}/schedstat`, "utf8").split(" ")[0]);
  }
  return total / 1e9;
}

function memoryMib(pid, field = "VmRSS") {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${field}:\\s+(\\d+)`, "m").exec(status)[1]) / 1024;
}

function startUsage() {
  const own = cpuSeconds(process.pid);
  const agents = cpuSeconds(child.pid);
  return (items) => ({
    client_us: ((cpuSeconds(process.pid) - own) / items) * 1e6,
    agent_us: ((cpuSeconds(child.pid) - agents) / items) * 1e6,
  });
}

const median = (values) => {
  const ordered = [...values].sort((a, b) => a - b);
  const middle = Math.floor(ordered.length / 2);
  return ordered.length % 2 ? ordered[middle] : (ordered[middle - 1] + ordered[middle]) / 2;
};
// The fast peers are done with a turn in a tenth of a second, too short for one sample; the same rule for all.
const isEnough = (times) => times.length >= 5 || times.reduce((sum, each) => sum + each, 0) >= 1;
const percentile = (values, share) => [...values].sort((a, b) => a - b)[Math.floor(values.length * share)];

function expect(got, wanted, what) {
  if (got !== wanted) {
    console.error(`ts client: expected ${wanted} ${what}, got ${got}`);
    child.kill("SIGKILL");
    process.exit(1);
  }
}

const seen = { updates: 0, characters: 0, served: 0, bySession: new Map() };
function reset() {
  seen.updates = seen.characters = seen.served = 0;
  seen.bySession.clear();
}
let cancelAfter = -1;
let cancelStart = 0;
let isStuck = false;
// Held here, so that waiting handlers are reachable: V8 collects a function that awaits an unreachable promise.
const neverOpened = new Promise(() => {});
const content = LINE.repeat(16);

const app = client({ name: "ts" })
  .onNotification(methods.client.session.update, async ({ params: { sessionId, update }, agent }) => {
    if (update.sessionUpdate === "agent_message_chunk") {
      seen.updates += 1;
      seen.bySession.set(sessionId, (seen.bySession.get(sessionId) ?? 0) + 1);
      if (update.content.type === "text") seen.characters += update.content.text.length;
    } else if (update.sessionUpdate === "tool_call_update" && update.content) {
      seen.updates += 1;
      if (update.content[0].type === "diff") seen.characters += update.content[0].newText.length;
    }
    if (seen.updates === cancelAfter) {
      cancelStart = performance.now();
      await agent.notify(methods.agent.session.cancel, { sessionId });
    }
    if (isStuck) await neverOpened;
  })
  .onRequest(methods.client.fs.readTextFile, () => {
    seen.served += 1;
    return { content };
  })
  .onRequest(methods.client.fs.writeTextFile, ({ params }) => {
    seen.characters += params.content.length;
    return {};
  });

const newSession = async (ctx) =>
  (await ctx.request(methods.agent.session.new, { cwd: "/tmp", mcpServers: [] })).sessionId;
const prompt = (ctx, sessionId, text) =>
  ctx.request(methods.agent.session.prompt, { sessionId, prompt: [{ type: "text", text }] });

async function rtt(ctx, sessionId) {
  for (let i = 0; i < params.warm_up; i++) await prompt(ctx, sessionId, "noop");
  const times = [];
  const usage = startUsage();
  for (let i = 0; i < params.count; i++) {
    const start = performance.now();
    await prompt(ctx, sessionId, "noop");
    times.push((performance.now() - start) * 1e3);
  }
  return { p50_us: median(times), p99_us: percentile(times, 0.99), ...usage(params.count) };
}

async function stream(ctx, sessionId) {
  await prompt(ctx, sessionId, params.warm_up);
  await sleep(20);
  const times = [];
  const usage = startUsage();
  while (!isEnough(times)) {
    reset();
    const start = performance.now();
    await prompt(ctx, sessionId, params.prompt);
    times.push((performance.now() - start) / 1e3);
    // The prompt may resolve before the last handlers were called; they follow within one turn of the loop.
    await sleep(20);
    expect(seen.updates, params.count, "updates");
    expect(seen.characters, params.count * params.characters, "characters");
  }
  return { per_second: params.count / median(times), ...usage(params.count * times.length) };
}

async function read(ctx, sessionId) {
  await prompt(ctx, sessionId, params.warm_up);
  reset();
  const usage = startUsage();
  const start = performance.now();
  await prompt(ctx, sessionId, params.prompt);
  const seconds = (performance.now() - start) / 1e3;
  expect(seen.served, params.count, "reads");
  return { per_second: params.count / seconds, ...usage(params.count) };
}

async function sessions(ctx) {
  const ids = [];
  for (let i = 0; i < params.sessions; i++) ids.push(await newSession(ctx));
  await Promise.all(ids.map((id) => prompt(ctx, id, params.warm_up)));
  await sleep(20);
  reset();
  let slowestAtFirstEnd;
  const usage = startUsage();
  const start = performance.now();
  await Promise.all(
    ids.map(async (id) => {
      await prompt(ctx, id, params.prompt);
      slowestAtFirstEnd ??= Math.min(...ids.map((each) => seen.bySession.get(each) ?? 0));
    }),
  );
  const seconds = (performance.now() - start) / 1e3;
  const total = params.sessions * params.count;
  const cpu = usage(total);
  await sleep(20);
  expect(seen.updates, total, "updates");
  return { per_second: total / seconds, fairness: slowestAtFirstEnd / params.count, ...cpu };
}

async function cancel(ctx, sessionId) {
  const times = [];
  const late = [];
  cancelAfter = params.after;
  for (let i = 0; i < params.warm_up + params.count; i++) {
    reset();
    await prompt(ctx, sessionId, params.prompt);
    const ms = performance.now() - cancelStart;
    await sleep(20);
    if (i >= params.warm_up) {
      times.push(ms);
      late.push(seen.updates - params.after);
    }
  }
  return { ms: median(times), max_ms: Math.max(...times), late: median(late), max_late: Math.max(...late) };
}

async function big(ctx, sessionId) {
  await prompt(ctx, sessionId, params.warm_up);
  const times = [];
  for (let i = 0; i < params.count; i++) {
    reset();
    const start = performance.now();
    await prompt(ctx, sessionId, params.prompt);
    times.push((performance.now() - start) / 1e3);
    expect(seen.characters, params.size, "characters");
  }
  return {
    mib_per_second: params.size / MIB / median(times),
    client_peak_mib: memoryMib(process.pid, "VmHWM"),
    agent_peak_mib: memoryMib(child.pid, "VmHWM"),
  };
}

async function stuck(ctx, sessionId) {
  const clientIdle = memoryMib(process.pid);
  const agentIdle = memoryMib(child.pid);
  isStuck = true;
  prompt(ctx, sessionId, params.prompt).catch(() => {});
  await sleep(params.seconds * 1e3);
  return {
    client_growth_mib: memoryMib(process.pid) - clientIdle,
    agent_growth_mib: memoryMib(child.pid) - agentIdle,
    started: seen.updates,
  };
}

const cases = { rtt, unpinned: rtt, stream, diffs: stream, read, sessions, cancel, big, stuck };
const pipes = ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout), {
  maxMessageBytes: MAX_MESSAGE_BYTES,
});
try {
  const result = await app.connectWith(pipes, async (ctx) => {
    await ctx.request(methods.agent.initialize, {
      protocolVersion: PROTOCOL_VERSION,
      clientCapabilities: { fs: { readTextFile: true, writeTextFile: true } },
      clientInfo: { name: "ts", version: "1" },
    });
    const sessionId = await newSession(ctx);
    console.log(JSON.stringify({ agent_pid: child.pid }));
    // The harness answers with a line once it has placed the two processes.
    readSync(0, Buffer.alloc(16));
    return cases[name](ctx, sessionId);
  });
  console.log(JSON.stringify(result));
} finally {
  // Reaped, so that its CPU time is counted as this program's and not as another's.
  const exited = new Promise((resolve) => child.once("exit", resolve));
  if (child.exitCode === null && child.kill("SIGKILL")) await exited;
}
process.exit(0);
