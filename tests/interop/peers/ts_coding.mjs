// What the TypeScript SDK's client does with a coding agent that plays scripts: a project, its files, sessions that last.
// INTEROP_PROJECT names the project's folder. The last scenario comes back to what the first ones left.
import * as acp from "@agentclientprotocol/sdk";
import { at, hello, say } from "./ts_scenarios.mjs";

const { agent: AGENT } = acp.methods;
const project = process.env.INTEROP_PROJECT;

// Initialize and a session in the project; resolves with its id.
async function openProject(agent, reporter) {
  await reporter.call("initialize", hello(agent));
  const { sessionId } = await reporter.call("new", agent.request(AGENT.session.new, at(project)));
  return sessionId;
}

async function work(agent, reporter) {
  const sessionId = await openProject(agent, reporter);
  await say(agent, reporter, sessionId, "think hm\ntodo [x] look; [>] change; test\nread a.txt\nsay it says {result}");
}

async function permissionToWrite(agent, reporter) {
  const sessionId = await openProject(agent, reporter);
  for (const [answer, name] of [["allow-once", "yes"], ["reject-once", "no"], ["cancelled", "unanswered"]]) {
    reporter.permission = answer;
    await say(agent, reporter, sessionId, `write ${name}.txt new\nsay and on`);
  }
}

async function toolAccess(agent, reporter) {
  const sessionId = await openProject(agent, reporter);
  reporter.permission = "allow-once";
  await say(agent, reporter, sessionId, "read a.txt\nedit a.txt two => zwei");
  await say(agent, reporter, sessionId, "run touch made.txt; echo from the terminal\nsay {result}");
  reporter.elicitation = { action: "accept", content: { answer: "that" } };
  await say(agent, reporter, sessionId, "question Which one? | this | that\nsay {result}");
}

async function choices(agent, reporter) {
  const sessionId = await openProject(agent, reporter);
  const mode = (name, modeId) => reporter.call(name, agent.request(AGENT.session.setMode, { sessionId, modeId }));
  const effort = (name, value) =>
    reporter.call(name, agent.request(AGENT.session.setConfigOption, { sessionId, configId: "effort", value }));
  await mode("mode", "plan");
  await mode("mode junk", "junk");
  await effort("effort", "high");
  await effort("effort junk", "junk");
  await say(agent, reporter, sessionId, "write planned.txt no");
}

async function stop(agent, reporter) {
  const sessionId = await openProject(agent, reporter);
  const cancel = () => agent.notify(AGENT.session.cancel, { sessionId });
  const said = reporter.next("said");
  const slow = say(agent, reporter, sessionId, "slow 500");
  await said;
  await cancel();
  await slow;
  reporter.permission = "hold";
  const asked = reporter.next("request");
  const held = say(agent, reporter, sessionId, "run touch held.txt");
  await asked;
  await cancel();
  reporter.answerHeld();
  await held;
  await say(agent, reporter, sessionId, "say still here");
}

async function steer(agent, reporter) {
  const sessionId = await openProject(agent, reporter);
  const words = (name) => reporter.call(name, agent.request("_dragoman/steer", { sessionId, text: "use tabs" }));
  reporter.permission = "hold";
  const asked = reporter.next("request");
  const held = say(agent, reporter, sessionId, "run touch held.txt\nsay done");
  await asked;
  await words("steer");
  reporter.answerHeld();
  await held;
  await words("steer late");
}

async function comeBack(agent, reporter) {
  await hello(agent);
  const call = (name, method, params) => reporter.call(name, agent.request(method, params));
  const { sessions } = await call("list", AGENT.session.list, { cwd: project });
  // The newest comes first, so the oldest is the one that `work` left.
  const [oldest, newest] = [sessions.at(-1).sessionId, sessions[0].sessionId];
  await call("load", AGENT.session.load, at(project, { sessionId: oldest }));
  await call("load missing", AGENT.session.load, at(project, { sessionId: "ses_nobody" }));
  await call("resume", AGENT.session.resume, at(project, { sessionId: newest }));
  await say(agent, reporter, newest, "say on we go");
  const said = reporter.next("said");
  const slow = say(agent, reporter, newest, "slow 500");
  await said;
  await call("close", AGENT.session.close, { sessionId: newest });
  await slow;
  await say(agent, reporter, newest, "closed");
}

async function forget(agent, reporter) {
  await hello(agent);
  const call = (name, method, params) => reporter.call(name, agent.request(method, params));
  const { sessions } = await call("list", AGENT.session.list, {});
  const { sessionId } = sessions[0];
  await call("delete", AGENT.session.delete, { sessionId });
  await call("delete again", AGENT.session.delete, { sessionId });
  await call("load deleted", AGENT.session.load, at(project, { sessionId }));
  await call("list after", AGENT.session.list, {});
}

export const CODING = { work, permission_to_write: permissionToWrite, tool_access: toolAccess, choices, stop, steer, come_back: comeBack, forget };
