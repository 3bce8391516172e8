/** How to log in to an agent: the agent does it itself, with a key if it takes one, or a command in a terminal of the host. */
import { useEffect, useState } from "preact/hooks";
import { useApp, type AgentFacts } from "../app";
import { Dialog } from "../frame/dialog";
import { Icon } from "../frame/icon";
import { toast } from "../frame/toasts";
import { isPhone } from "../frame/width";
import { copy } from "../render/copy";
import { Plain } from "../render/Plain";
import { words } from "../words";

interface Method {
  id: string;
  name?: string;
  description?: string | null;
  type?: string;
  _meta?: Record<string, unknown> | null;
}

interface Methods {
  authMethods?: Method[];
  commands?: { id?: string; name: string; command: string }[];
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}

/** A method that the agent carries out itself. */
function OwnMethod({ agent, method, isBusy, onLogIn }: { agent: string; method: Method; isBusy: boolean; onLogIn: (key: string | null) => void }) {
  const takesKey = typeof method._meta?.["api-key"] === "object" && method._meta["api-key"] !== null;
  const [key, setKey] = useState("");
  const name = method.name ?? method.id;
  return (
    <form class="formfield" onSubmit={(event) => { event.preventDefault(); onLogIn(takesKey ? key : null); }}>
      <span class="label"><Plain text={name} /></span>
      {typeof method.description === "string" && <span class="xs faint"><Plain text={method.description} /></span>}
      <span class="row">
        {takesKey && <input class="input grow" type="password" autocomplete="off" aria-label={words.login.key(name)} placeholder={words.login.keyHint} value={key} onInput={(event) => setKey(event.currentTarget.value)} />}
        <button type="submit" class="btn" disabled={isBusy || (takesKey && key === "")} aria-label={words.login.with(agent, name)}>{words.login.logIn}</button>
      </span>
    </form>
  );
}

/** A method that needs a terminal of the host's machine. */
function Command({ command }: { command: { name: string; command: string } }) {
  return (
    <div class="formfield">
      <span class="label"><Plain text={command.name} /></span>
      <span class="row"><code class="grow"><Plain text={command.command} care="exact" /></code><button type="button" class="btn" aria-label={words.login.copy(command.command)} onClick={() => void copy(command.command).then((isDone) => toast(isDone ? words.login.copied : words.login.notCopied))}><Icon name="copy" />{words.login.copyShort}</button></span>
    </div>
  );
}

export function LoginDialog({ agent, onClose, onDone }: { agent: AgentFacts; onClose: () => void; onDone: () => void }) {
  const app = useApp();
  const [found, setFound] = useState<Methods | null>(null);
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  useEffect(() => {
    app.call<Methods>("_dragoman/login_methods", { agent: agent.name }).then(setFound, (error: unknown) => setProblem(messageOf(error)));
  }, []);
  const commands = found?.commands ?? [];
  const inTerminal = new Set(commands.map((command) => command.id));
  const methods = (found?.authMethods ?? []).filter((method) => (method.type ?? "agent") === "agent" && !inTerminal.has(method.id) && method._meta?.["gateway"] === undefined);
  const logIn = async (method: Method, key: string | null) => {
    setBusy(true);
    setProblem("");
    try {
      await app.call("_dragoman/log_in", { agent: agent.name, method: method.id, ...(key === null ? {} : { _meta: { "api-key": { apiKey: key } } }) });
      toast(words.login.done(agent.name));
      onDone();
    } catch (error) {
      // Some agents repeat the key in what they say.
      setProblem(words.frame.failed(key === null ? messageOf(error) : messageOf(error).replaceAll(key, "…")));
    } finally {
      setBusy(false);
    }
  };
  const title = words.login.title(agent.name);
  return (
    <Dialog label={title} look={isPhone.value ? "sheetp" : "boxed"} onClose={onClose}>
      <h2 class="title" dir="auto">{title}</h2>
      {found === null && problem === "" && <p class="s soft" role="status">{words.login.asking(agent.name)}</p>}
      {methods.map((method) => <OwnMethod key={method.id} agent={agent.name} method={method} isBusy={isBusy} onLogIn={(key) => void logIn(method, key)} />)}
      {isBusy && <p class="s soft" role="status">{words.login.busy(agent.name)}</p>}
      {commands.length > 0 && <p class="s soft">{words.login.inTerminal(app.host.value?.name ?? words.fresh.host)}</p>}
      {commands.map((command) => <Command key={command.command} command={command} />)}
      {found !== null && methods.length === 0 && commands.length === 0 && <p class="s soft">{words.login.none(agent.name)}</p>}
      {problem !== "" && <p class="problem" role="alert"><Plain text={problem} /></p>}
      <div class="row foot"><span class="grow" /><button type="button" class="btn quiet" onClick={onClose}>{words.frame.close}</button></div>
    </Dialog>
  );
}
