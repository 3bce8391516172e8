// One message in full, and the session as it stands after it.

const LONG = 2000; // characters of a string that are shown until all of it is requested
const MANY = 100; // members or items that are shown open
const LATEST = 120; // items of a session's timeline that are shown until the rest is requested

function tree(value, key) {
  const label = key === undefined ? "" : make("span", { class: "key" }, `${typeof key === "number" ? key : JSON.stringify(key)}: `);
  if (value === null || typeof value !== "object") return make("div", { class: "leaf" }, label, leaf(value));
  const isList = Array.isArray(value), entries = isList ? value.map((each, i) => [i, each]) : Object.entries(value);
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  if (!entries.length) return make("div", { class: "leaf" }, label, open + close);
  const inner = make("div");
  const details = make("details", { open: entries.length <= MANY || key === undefined },
    make("summary", {}, label, open, make("span", { class: "hint" }, ` ${entries.length} ${isList ? "item" : "member"}${entries.length === 1 ? "" : "s"} `), close), inner);
  const fill = () => { if (details.open && !inner.childNodes.length) inner.append(...entries.map(([name, each]) => tree(each, name))); };
  details.addEventListener("toggle", fill);
  fill();
  return details;
}

function leaf(value) {
  if (typeof value === "string") {
    const text = visible(JSON.stringify(value).replace(/\\n/g, "\\n\n"));
    if (text.length <= LONG) return make("span", { class: "string" }, text);
    const span = make("span", { class: "string" }, text.slice(0, LONG));
    return make("span", {}, span, make("button", { class: "link", type: "button", onclick: (event) => { span.textContent = text; event.target.remove(); } },
      ` … all ${size(value.length)} characters`));
  }
  return make("span", { class: typeof value === "number" ? "num" : "word" }, String(value));
}

class Detail {
  constructor(recording, choose) {
    this.recording = recording;
    this.choose = choose;
    this.folder = new Folder(recording);
    this.conversation = new Conversation(recording, choose);
    this.box = document.getElementById("detail");
    this.tab = "message";
    this.show(-1);
  }
  // Without a message (-1) the conversation of the first session is shown.
  show(i) {
    this.i = i;
    if (i < 0) {
      const hint = make("p", { class: "sub" }, "Choose a message. ↑ ↓ or j k go through the list, / searches, ? shows all keys.");
      this.box.replaceChildren(hint, ...(this.recording.conversations.length ? [this.conversation.at(-1)] : []));
      return;
    }
    const scroll = this.shown === "conversation" && this.tab === "conversation" ? this.box.scrollTop : 0;
    this.shown = this.tab;
    const tabs = make("div", { class: "tabs", role: "tablist" },
      ...[["message", "Message"], ["conversation", "Conversation"], ["state", "Session at this point"]].map(([id, text]) =>
        make("button", { type: "button", role: "tab", "aria-selected": String(this.tab === id), "data-tab": id, onclick: () => { this.tab = id; this.show(i); } }, text)),
      make("button", { type: "button", class: "right", onclick: (event) => this.copy(event.target) }, "Copy"));
    const views = { message: () => this.message(i), conversation: () => [this.conversation.at(i)], state: () => this.state(i) };
    this.box.replaceChildren(...this.head(i), tabs, ...views[this.tab]());
    this.box.scrollTop = scroll;
    this.box.querySelector(".changed")?.scrollIntoView({ block: "center" });
    this.box.querySelector(".conversation > .current")?.scrollIntoView({ block: "nearest" });
  }
  link(i, text) { return make("button", { class: "link", type: "button", onclick: () => this.choose(i) }, text); }
  head(i) {
    const recording = this.recording, kind = recording.kindOf(i), pair = recording.pair[i];
    const way = { 1: "client → agent", 2: "agent → client" }[recording.dir[i]];
    const facts = [`message ${i + 1}`, kind, way, `${recording.t[i].toFixed(6)} s`, recording.size[i] ? `${recording.size[i]} bytes` : "", recording.id[i] === null ? "" : `id ${JSON.stringify(recording.id[i])}`];
    const sub = make("p", { class: "sub" }, facts.filter(Boolean).join(" · "));
    if (pair >= 0) {
      const took = recording.latency[i] === null ? "" : ` after ${duration(recording.latency[i])}`;
      sub.append(" · ", kind === "response" ? "answers " : "answered by ", this.link(pair, `message ${pair + 1}`), took);
    } else if (kind === "request") sub.append(" · never answered");
    const session = recording.session[i] < 0 ? null : make("p", { class: "sub" }, `${recording.alias(i)} · ${oneLine(recording.sessions[recording.session[i]])}`);
    return [make("h2", {}, oneLine(recording.method(i) || kind)), sub, ...(session ? [session] : []), ...this.findings(i)];
  }
  findings(i) {
    return (this.recording.marks.get(i) ?? []).map((mark) => {
      const [level, who, text] = this.recording.rules[mark.rule];
      return make("div", { class: `card ${mark.grade}` }, make("b", {}, `Rule ${mark.rule} · ${mark.level}`), make("p", {}, visible(mark.message)),
        make("p", { class: "rule" }, `${level}, ${who}: ${text}`));
    });
  }
  message(i) {
    const value = this.recording.message(i);
    if (value === null) return [make("p", { class: "sub" }, this.recording.summary[i])];
    if (typeof value === "string") return [make("pre", { class: "raw" }, visible(value))];
    return [make("div", { class: "tree" }, tree(value))];
  }
  state(i) {
    const recording = this.recording, about = recording.about[i] >= 0 ? recording.about[i] : recording.session[i];
    if (about < 0) return [make("p", { class: "sub" }, "This message belongs to no session.")];
    const session = this.folder.at(i).get(about) ?? new Session();
    const facts = {
      session: recording.sessions[about], title: session.title, mode: session.mode,
      options: session.options.map((option) => `${option.id}=${option.currentValue}`).join(", "),
      commands: session.commands.map((command) => `/${command.name}`).join(" "),
      usage: session.usage && `${size(session.usage.used)} of ${size(session.usage.size)} tokens`,
      cost: session.cost && `${session.cost.amount} ${session.cost.currency}`,
      turns: `${session.turns}${session.running ? ", one is running" : session.stop ? `, the last one: ${session.stop}` : ""}`,
    };
    const list = make("dl", { class: "known" });
    for (const [name, value] of Object.entries(facts)) if (value) list.append(make("dt", {}, name), make("dd", {}, oneLine(String(value))));
    const from = Math.max(0, session.items.length - LATEST), items = session.items.map((item, place) => () => this.item(item, place === session.changed));
    const shown = items.slice(from).map((draw) => draw());
    if (!from) return [list, ...shown];
    const more = make("button", { class: "more", type: "button", onclick: () => more.replaceWith(...items.slice(0, from).map((draw) => draw())) }, `${from} earlier items`);
    return [list, more, ...shown];
  }
  item(item, isChanged) {
    if (!item) return make("div", { hidden: true });
    const box = make("div", { class: `item ${["user", "agent", "thought"].includes(item.item) ? item.item : "other"}${isChanged ? " changed" : ""}` });
    if (item.item === "tool_call") {
      const status = item.cancelled ? "cancelled" : String(item.status);
      box.append(make("span", { class: "who" }, `tool call · ${oneLine(String(item.kind))}`), oneLine(item.title || item.id), make("span", { class: `status ${/^\w+$/.test(status) ? status : ""}` }, oneLine(status)));
      for (const content of item.content) {
        const text = content.type === "content" ? blockText(content.content) : content.type === "diff" ? `diff of ${content.path}` : `${content.type} ${content.terminalId ?? ""}`;
        box.append(make("pre", { class: "raw" }, visible(text.slice(0, LONG))));
      }
    } else if (item.item === "plan") {
      box.append(make("span", { class: "who" }, item.removed ? "plan, removed" : "plan"), visible(item.text ?? ""));
      for (const entry of item.entries ?? []) box.append(make("div", {}, `${{ completed: "☑", in_progress: "◐" }[entry.status] ?? "☐"} ${oneLine(String(entry.content))}`));
    } else box.append(make("span", { class: "who" }, [item.item, item.severity, item.status].filter(Boolean).join(" · ")), visible(item.text ?? ""));
    return box;
  }
  async copy(button) {
    const text = this.tab === "message" ? JSON.stringify(this.recording.message(this.i), null, 2) : this.box.innerText;
    try { await navigator.clipboard.writeText(text); button.textContent = "Copied"; } catch { button.textContent = "Not allowed here"; }
    setTimeout(() => { button.textContent = "Copy"; }, 1200);
  }
}
