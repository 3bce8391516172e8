// The state of a session at any message. Which item of its timeline a message changes was worked out by the library
// when this page was written (`place`); here the change is only carried out.

const ROLES = { user_message_chunk: "user", agent_message_chunk: "agent", agent_thought_chunk: "thought" };

const OTHERS = { notice: "notice", compaction_update: "compaction", compaction_summary_chunk: "compaction", subagent_update: "subagent",
  session_message: "session_message", session_message_chunk: "session_message", plan_update: "plan", plan_removed: "plan" };

function blockText(block) {
  if (!block || typeof block !== "object") return "";
  switch (block.type) {
    case "text": return block.text ?? "";
    case "image": case "audio": return `[${block.type} ${block.mimeType ?? ""}]`;
    case "resource_link": return `[${block.name ?? block.uri}]`;
    case "resource": return `[resource ${block.resource?.uri ?? ""}]`;
  }
  return `[${block.type}]`;
}

class Session {
  constructor() {
    Object.assign(this, { items: [], title: null, mode: null, modes: [], options: [], commands: [], usage: null, cost: null,
      turns: 0, running: false, start: 0, stop: null, changed: -1 });
  }
  open(result) {
    if (result.modes) { this.modes = (result.modes.availableModes ?? []).map((mode) => mode.id); this.mode = result.modes.currentModeId; }
    if (result.configOptions) this.setOptions(result.configOptions);
  }
  setOptions(options) {
    this.options = options;
    const option = options.find((each) => each.type === "select" && each.category === "mode");
    if (option && (!this.modes.length || this.modes.includes(option.currentValue))) this.mode = option.currentValue;
  }
  setMode(mode) {
    this.mode = mode;
    this.options = this.options.map((option) => {
      const offers = (option.options ?? []).flatMap((each) => each.options ?? [each]).some((each) => each.value === mode);
      return option.type === "select" && option.category === "mode" && offers ? { ...option, currentValue: mode } : option;
    });
  }
  say(place, role, blocks) {
    const item = this.items[place] ??= { item: role, text: "" };
    for (const block of blocks) item.text += blockText(block);
  }
  tool(place, call) {
    const item = this.items[place] ??= { item: "tool_call", id: call.toolCallId, title: "", kind: "other", status: "pending", content: [], locations: [] };
    for (const name of ["title", "kind", "status", "content", "locations"]) if (call[name] !== undefined && call[name] !== null) item[name] = call[name];
    if (call.status === "completed") item.cancelled = false;
  }
  cancel() {
    for (const item of this.items.slice(this.start)) {
      if (item?.item === "tool_call" && !["completed", "failed"].includes(item.status)) item.cancelled = true;
    }
  }
  update(place, update) {
    if (place >= 0) this.changed = place;
    const kind = update.sessionUpdate;
    switch (kind) {
      case "user_message_chunk": case "agent_message_chunk": case "agent_thought_chunk":
        return place < 0 ? undefined : this.say(place, ROLES[kind], [update.content]);
      case "tool_call": case "tool_call_update": return place < 0 ? undefined : this.tool(place, update);
      case "plan": this.items[place] = { item: "plan", entries: update.entries }; return;
      case "available_commands_update": this.commands = update.availableCommands ?? []; return;
      case "current_mode_update": this.setMode(update.currentModeId ?? update.modeId); return;
      case "config_option_update": this.setOptions(update.configOptions ?? []); return;
      case "session_info_update": if (update.title !== undefined) this.title = update.title; return;
      case "usage_update": this.usage = update; if (update.cost) this.cost = update.cost; return;
    }
    if (place >= 0) this.other(place, kind, update);
  }
  other(place, kind, update) {
    const item = this.items[place] ??= { item: OTHERS[kind] ?? "unknown", text: "" };
    if (kind === "notice") Object.assign(item, { severity: update.severity, text: update.title });
    else if (kind === "compaction_update") {
      item.status = update.status;
      if (update.summary !== undefined) item.text = (update.summary ?? []).map(blockText).join("");
    } else if (kind.endsWith("_chunk")) item.text += blockText(update.content);
    else if (kind === "session_message") { if (update.content !== undefined) item.text = (update.content ?? []).map(blockText).join(""); }
    else if (kind === "subagent_update") item.text = update.title ?? item.text;
    else if (kind === "plan_update") Object.assign(item, { item: "plan", entries: update.plan?.entries ?? [], text: update.plan?.content ?? update.plan?.uri ?? "" });
    else if (kind === "plan_removed") item.removed = true;
    else item.text = kind;
  }
}

class Folder {
  constructor(recording) { this.recording = recording; this.forget(); }
  forget() { this.next = 0; this.sessions = new Map(); }
  // The sessions after message `i`. Going forward costs only what lies between.
  at(i) {
    if (i + 1 < this.next) this.forget();
    for (; this.next <= i; this.next++) this.take(this.next);
    return this.sessions;
  }
  session(index) {
    if (!this.sessions.has(index)) this.sessions.set(index, new Session());
    return this.sessions.get(index);
  }
  take(i) {
    const recording = this.recording, about = recording.about[i];
    for (const session of this.sessions.values()) session.changed = -1;
    if (about < 0) return;
    const message = recording.message(i), method = recording.method(i), session = this.session(about), place = recording.place[i];
    if (recording.kindOf(i) === "response") return this.answer(session, method, message, recording.pair[i]);
    const params = message.params ?? {};
    switch (method) {
      case "session/load": this.sessions.set(about, new Session()); return;
      case "session/cancel": if (session.running) session.cancel(); return;
      case "session/request_permission": session.tool(place, params.toolCall); session.changed = place; return;
      case "session/prompt":
        if (place < 0) return;
        Object.assign(session, { start: place, running: true, stop: null, changed: place });
        session.turns++;
        session.items[place] = { item: "user", text: "" };
        session.say(place, "user", params.prompt ?? []);
        return;
    }
    if (params.update) session.update(place, params.update);
  }
  answer(session, method, message, asked) {
    const result = message.result;
    if (method === "session/prompt" && session.running) {
      session.running = false;
      session.stop = result ? result.stopReason : null;
      if (session.stop === null || session.stop === "cancelled") session.cancel();
    } else if (result && method === "session/set_mode") session.setMode(this.recording.message(asked).params.modeId);
    else if (result && method === "session/set_config_option") session.setOptions(result.configOptions ?? []);
    else if (result && ["session/new", "session/load", "session/resume", "session/fork"].includes(method)) session.open(result);
  }
}
