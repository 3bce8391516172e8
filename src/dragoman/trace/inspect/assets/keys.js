// Keys of the whole page. Those of the list and of the conversation are in list.js and conversation.js.

class Keys {
  constructor(page) {
    this.page = page;
    this.help = document.getElementById("help");
    document.getElementById("keys").addEventListener("click", () => this.help.showModal());
    document.addEventListener("keydown", (event) => this.key(event));
  }
  key(event) {
    if (event.key === "Escape") { if (!this.help.open) this.page.list.box.focus(); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || this.help.open) return;
    if (/^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement?.tagName)) return;
    if (this.tabs(event)) return;
    const page = this.page, actions = {
      "/": () => { page.view("timeline"); page.field("search").focus(); },
      "?": () => this.help.showModal(),
      1: () => page.view("timeline"), 2: () => page.view("findings"), 3: () => page.view("stats"),
      m: () => page.pane("message"), c: () => page.pane("conversation"), s: () => page.pane("state"),
      n: () => this.jump(1), p: () => this.jump(-1),
      Enter: document.activeElement === page.list.box ? () => (page.detail.box.querySelector(".conversation") ?? page.detail.box.querySelector("[role=tab][aria-selected=true]"))?.focus() : undefined,
    };
    const act = Object.hasOwn(actions, event.key) ? actions[event.key] : null;
    if (act) { event.preventDefault(); act(); }
    else if (document.activeElement === document.body || document.activeElement === null) page.list.key(event);
  }
  // To the next line that is an error or breaks a rule.
  jump(step) {
    const { list, recording } = this.page, isBad = (i) => recording.isError(i) || (recording.marks.get(i) ?? []).some((mark) => mark.grade !== "note");
    const from = list.chosen < 0 ? (step > 0 ? -1 : recording.length) : list.chosen;
    for (let i = from + step; i >= 0 && i < recording.length; i += step) if (isBad(i)) return this.page.choose(i);
  }
  // The arrows go through tabs, as in every list of tabs. Returns whether the key was one of these.
  tabs(event) {
    const box = document.activeElement?.closest("[role=tablist]");
    if (!box) return false;
    const tabs = [...box.querySelectorAll("[role=tab]")], here = tabs.indexOf(document.activeElement);
    const to = { ArrowRight: here + 1, ArrowLeft: here - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (to === undefined || here < 0) return false;
    event.preventDefault();
    const { id, dataset } = tabs[(to + tabs.length) % tabs.length];
    const find = () => (id ? document.getElementById(id) : this.page.detail.box.querySelector(`[data-tab=${dataset.tab}]`));
    find().click();
    find().focus(); // the pane draws its tabs again
    return true;
  }
}
