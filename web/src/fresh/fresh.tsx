/** A new session: the task, the folder, the agent, and if wanted a worktree, model and mode. Also the first run. */
import { useEffect, useRef, useState } from "preact/hooks";
import { useApp, type AgentFacts } from "../app";
import { Icon } from "../frame/icon";
import { modKey, useKeys } from "../frame/keys";
import { go, pathOf } from "../frame/router";
import { MenuButton } from "../frame/side";
import { toastFailure } from "../frame/toasts";
import { isPhone } from "../frame/width";
import type { Thread } from "../model";
import { words } from "../words";
import { freshAgent } from "./choice";
import { FolderDialog, shortPath, type Folders } from "./folders";
import { LoginDialog } from "./login";
import { Options } from "./options";

const FEW = 5;

function Agents({ agents, chosen, host, onChoose }: { agents: AgentFacts[]; chosen: string; host: string; onChoose: (name: string) => void }) {
  const [areAllShown, showAll] = useState(false);
  const near = agents.filter((agent) => agent.state !== "missing");
  const shown = areAllShown ? agents : (near.length > 0 ? near : agents).slice(0, Math.max(FEW, near.length));
  return (
    <>
      <fieldset class="optset">
        <legend class="label">{words.fresh.agent}</legend>
        <div class="opts">{shown.map((agent) => (
          <label class="opt" key={agent.name}>
            <input type="radio" name="agent" checked={agent.name === chosen} disabled={agent.state === "missing"} onChange={() => onChoose(agent.name)} />
            <span class="row"><span class="ava" aria-hidden="true">{agent.name.slice(0, 1).toUpperCase()}</span><b class="strong" dir="auto">{agent.name}</b></span>
            <span class={`chip ${agent.state === "ready" ? "ok" : ""}`}>{agent.state === "ready" && <Icon name="check" />}{words.fresh.states[agent.state]}</span>
            <small dir="auto">{[agent.title === agent.name ? "" : agent.title, agent.version ?? "", agent.state === "ready" ? "" : (agent.how ?? "")].filter((part) => part !== "").join(" · ")}</small>
          </label>
        ))}</div>
      </fieldset>
      <p class="xs faint">{words.fresh.found(host)} {shown.length < agents.length && <button type="button" class="link plain" onClick={() => showAll(true)}>{words.fresh.showAll(agents.length - shown.length)}</button>}</p>
    </>
  );
}

export function Fresh() {
  const app = useApp();
  const draft = app.draft("");
  const [agents, setAgents] = useState<AgentFacts[] | null>(null);
  const [agent, setAgent] = useState(freshAgent.value);
  const [folder, setFolder] = useState("");
  const [isChoosing, setChoosing] = useState(false);
  const [worktree, setWorktree] = useState<string | null>(null);
  const [isBusy, setBusy] = useState(false);
  const [loggingIn, setLoggingIn] = useState<AgentFacts | null>(null);
  const [opened, setOpened] = useState<{ thread: Thread; for: string } | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const host = app.host.value;
  const isConnected = app.line.value.state === "connected";
  useEffect(() => {
    if (!isConnected) return;
    load();
    app.call<Folders>("_dragoman/folders", {}).then((found) => setFolder((before) => before || (found.recent[0]?.path ?? found.folders[0]?.path ?? "")), () => undefined);
  }, [isConnected]);
  const load = () => {
    // A host without a list of agents still has those of its sessions.
    const used = (): AgentFacts[] => [...new Set(app.rows.value.map((row) => row.own.agent ?? ""))].filter((name) => name !== "").map((name) => ({ name, title: name, state: "unknown" }));
    const listed = app.host.value?.methods.includes("_dragoman/agents") === true ? app.agents() : Promise.resolve(used());
    listed.then((found) => {
      setAgents(found);
      setAgent((before) => (found.some((one) => one.name === before && one.state !== "missing") ? before : ((found.find((one) => one.isDefault && one.state !== "missing") ?? found.find((one) => one.state === "ready") ?? found[0])?.name ?? "")));
    }, toastFailure);
  };
  useEffect(() => {
    freshAgent.value = "";
    if (!isPhone.value) field.current?.focus();
  }, []);
  if (host !== null && !host.rights.includes("prompt")) {
    return <main class="main"><header class="bar"><MenuButton /><h1>{words.fresh.title}</h1></header><p class="empty">{words.fresh.notAllowed}</p></main>;
  }
  const mayLogIn = host?.methods.includes("_dragoman/login_methods") === true && host.methods.includes("_dragoman/log_in");
  const needsLogin = mayLogIn ? agents?.find((one) => one.name === agent && (one.state === "login" || one.state === "unknown")) : undefined;
  const wanted = `${agent}\n${folder}\n${worktree ?? ""}`;
  const current = opened?.for === wanted ? opened.thread : null;
  const create = async (): Promise<string> => {
    if (current !== null) return current.sessionId;
    if (opened !== null) void app.archive(opened.thread.sessionId, true).catch(() => undefined);
    return app.create({ agent, cwd: folder, ...(worktree === null ? {} : { worktree: worktree.trim() || nameFrom(draft.value) }) });
  };
  const canStart = agent !== "" && folder !== "" && isConnected && !isBusy;
  const attempt = async (work: (id: string) => Promise<void>) => {
    if (!canStart) return;
    setBusy(true);
    try {
      await work(await create());
    } catch (error) {
      toastFailure(error);
    } finally {
      setBusy(false);
    }
  };
  const start = () => attempt(async (id) => {
    const text = draft.value.trim();
    if (text !== "") await app.prompt(id, text, "send");
    draft.value = "";
    go(pathOf(id));
  });
  const offer = () => attempt(async (id) => setOpened({ thread: app.open(id), for: wanted }));
  useKeys({ "mod+enter": () => void start() });
  const inside = (
    <div class="first"><div class="col wide">
      <h2 class="hello">{words.fresh.hello}</h2>
      <div class="box">
        <textarea ref={field} class="text" rows={3} dir="auto" aria-label={words.fresh.prompt} placeholder={words.fresh.placeholder} value={draft.value} onInput={(event) => (draft.value = event.currentTarget.value)} />
        <div class="foot">
          <button type="button" class="pick" aria-label={`${words.fresh.folder}: ${folder || words.fresh.noFolder}`} onClick={() => setChoosing(true)}><Icon name="folder" /><span dir="ltr">{folder === "" ? words.fresh.noFolder : shortPath(folder)}</span><Icon name="down" /></button>
          <label class="pick check" title={words.fresh.worktreeMore}><input type="checkbox" checked={worktree !== null} onChange={(event) => setWorktree(event.currentTarget.checked ? "" : null)} /><Icon name="branch" />{words.fresh.worktree}</label>
          <span class="grow" />
          <button type="button" class="btn solid" disabled={!canStart} onClick={() => void start()}><span>{isBusy ? words.fresh.starting : words.fresh.start(agent || words.fresh.agent)}</span>{!isPhone.value && <kbd aria-hidden="true">{modKey} ↵</kbd>}</button>
        </div>
      </div>
      {worktree !== null && <label class="formfield"><span class="label">{words.fresh.worktreeName}</span><input class="input" dir="auto" value={worktree} placeholder={nameFrom(draft.value)} onInput={(event) => setWorktree(event.currentTarget.value)} /><span class="xs faint">{words.fresh.worktreeMore}</span></label>}
      {agents !== null && (agents.length === 0 ? <p class="s soft">{words.fresh.noAgents}</p> : <Agents agents={agents} chosen={agent} host={host?.name ?? words.fresh.host} onChoose={setAgent} />)}
      {needsLogin !== undefined && <p class="offered"><button type="button" class="btn" onClick={() => setLoggingIn(needsLogin)}>{words.login.offer(needsLogin.name)}</button></p>}
      {current !== null ? <Options thread={current} /> : <p class="xs faint"><button type="button" class="btn" disabled={!canStart} onClick={() => void offer()}>{words.fresh.modelMode}</button> {words.fresh.modelModeMore(agent || words.fresh.agent)}</p>}
      <h3 class="label">{words.fresh.before}</h3>
      <ul class="prose s">{words.fresh.facts(host?.name ?? words.fresh.host).map((fact) => <li key={fact}>{fact}</li>)}</ul>
    </div>
    {loggingIn !== null && <LoginDialog agent={loggingIn} onClose={() => setLoggingIn(null)} onDone={() => { setLoggingIn(null); load(); }} />}
    {isChoosing && <FolderDialog start={folder} onClose={() => setChoosing(false)} onChoose={(path) => { setFolder(path); setChoosing(false); }} />}
    </div>
  );
  if (isPhone.value) return <main class="grow"><header class="big"><h1>{words.fresh.title}</h1></header>{inside}</main>;
  return <main class="main"><header class="bar"><MenuButton /><h1>{words.fresh.title}</h1></header>{inside}</main>;
}

/** Returns a name for a worktree, made of the first words of the task. */
function nameFrom(task: string): string {
  const name = task.toLowerCase().normalize("NFKD").replace(/[^a-z0-9]+/g, "-").split("-").filter((part) => part !== "").slice(0, 4).join("-").slice(0, 40);
  return name || "task";
}
