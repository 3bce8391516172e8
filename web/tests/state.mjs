// Folds sessions with the page's reducers: cases as JSON from stdin, their states as JSON to stdout.
//
// A case is a list of steps: {open}, {begin}, {update}, {permission}, {cancel}, {end}. tests/web/test_state.py compares
// the states with those of the Python package.
import { readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const folder = join(dirname(fileURLToPath(import.meta.url)), "..", "src", "state");
const made = await build({ entryPoints: [join(folder, "fold.ts")], bundle: true, format: "esm", write: false });
const { SessionFold } = await import(
  `data:text/javascript;base64,${Buffer.from(made.outputFiles[0].contents).toString("base64")}`
);

function play(steps) {
  const fold = new SessionFold();
  for (const step of steps) {
    if ("open" in step) fold.open(step.open);
    else if ("begin" in step) fold.beginTurn(step.begin);
    else if ("update" in step) fold.fold(step.update);
    else if ("permission" in step) fold.notePermission(step.permission);
    else if ("cancel" in step) fold.cancelTurn();
    else if ("end" in step) fold.endTurn(step.end === null ? {} : { stopReason: step.end });
  }
  return fold;
}

function shown(item, fold) {
  const { key, seq, at, endedAt, parent, ...rest } = item;
  switch (item.kind) {
    case "message":
      return { ...rest, id: item.id ?? null };
    case "tool": {
      const call = fold.callOf(item);
      const { children, status, seconds, ...members } = rest;
      return { ...members, status: call.reported, isCancelled: call.isCancelled };
    }
    case "plan":
      return { ...rest, id: item.id ?? null };
    case "subagent": {
      const { children, ...members } = rest;
      return members;
    }
    default:
      return rest;
  }
}

function state(fold) {
  const { settings } = fold;
  return {
    timeline: fold.timeline.filter((item) => item.kind !== "turn").map((item) => shown(item, fold)),
    plan: fold.plan,
    usage: fold.usage,
    title: fold.title,
    mode: settings.mode,
    modes: settings.modes,
    options: settings.options,
    commands: settings.commands,
    isRunning: fold.isRunning,
  };
}

const cases = JSON.parse(readFileSync(0, "utf8"));
process.stdout.write(JSON.stringify(cases.map((steps) => state(play(steps)))));
