// The conversation of a session as the library shows it: elements as JSON, made here from a list of known tags.

const PAGE_TAGS = new Set(("a article blockquote br code del details div em h3 h4 h5 h6 hr li ol p pre span strong summary table tbody td th thead tr ul").split(" "));
const PAGE_ATTRIBUTES = new Set(["class", "href", "open", "start", "data-place", "rel", "title"]);
const BLOCKS = 400; // that are made at once

function grow(tree) {
  if (typeof tree === "string") return tree;
  const [tag, attributes, children] = tree, allowed = {};
  for (const [name, value] of Object.entries(attributes)) {
    if (!PAGE_ATTRIBUTES.has(name) || (name === "href" && !/^https?:\/\//i.test(value))) continue;
    allowed[name] = name === "open" ? true : value;
  }
  if (allowed.href) allowed.target = "_blank";
  return make(PAGE_TAGS.has(tag) ? tag : "span", allowed, ...(children ?? []).map(grow));
}

class Conversation {
  constructor(recording, choose) {
    this.recording = recording;
    this.choose = choose;
    this.boxes = new Map(); // session -> its element
    this.firsts = new Map(); // session and place -> the first message about it
    for (let i = 0; i < recording.length; i++) {
      const about = recording.about[i], key = `${about} ${recording.place[i]}`;
      if (about >= 0 && recording.place[i] >= 0 && this.isCurrent(about, i) && !this.firsts.has(key)) this.firsts.set(key, i);
    }
  }
  // A session that was loaded again shows what came after that.
  isCurrent(session, i) { return i + 1 >= (this.recording.conversations[session]?.since ?? 0); }
  box(session, upTo) {
    const elements = this.recording.conversations[session]?.elements ?? [];
    if (!this.boxes.has(session)) this.boxes.set(session, this.makeBox(session));
    const box = this.boxes.get(session);
    if (!elements.length && !box.childNodes.length) box.append(make("p", { class: "sub" }, "Nothing was shown in this session."));
    this.fill(box, elements, upTo);
    return box;
  }
  makeBox(session) {
    const box = make("div", { class: "conversation", role: "feed", tabindex: "0", "aria-label": `Conversation of s${session + 1}`, "data-made": "0" });
    box.addEventListener("click", (event) => { if (!event.target.closest("a, summary, button")) this.follow(session, event.target.closest("[data-place]")); });
    box.addEventListener("keydown", (event) => this.key(session, box, event));
    return box;
  }
  fill(box, elements, upTo) {
    const made = Number(box.dataset.made), wanted = Math.min(elements.length, Math.max(made, BLOCKS, upTo + 20));
    if (wanted === made) return;
    box.querySelector(":scope > .more")?.remove();
    for (const tree of elements.slice(made, wanted)) {
      const block = grow(tree);
      block.tabIndex = -1;
      box.append(block);
    }
    box.dataset.made = String(wanted);
    if (wanted < elements.length) box.append(make("button", { class: "more", type: "button", onclick: () => this.fill(box, elements, wanted + BLOCKS) }, `${elements.length - wanted} later blocks`));
  }
  // The conversation of message `i`, with the block that the message is about marked. A message that belongs to no
  // session leaves the conversation that was shown last.
  at(i) {
    const recording = this.recording, own = i < 0 ? -1 : recording.about[i] >= 0 ? recording.about[i] : recording.session[i];
    const session = this.last = own >= 0 ? own : this.last ?? 0;
    if (!recording.conversations[session]) return make("p", { class: "sub" }, "The recording has no session.");
    const place = i >= 0 && this.isCurrent(session, i) ? recording.place[i] : -1, elements = recording.conversations[session].elements;
    const at = place < 0 ? -1 : elements.findIndex(([, attributes]) => attributes["data-place"] === String(place));
    const box = this.box(session, at);
    for (const block of box.querySelectorAll(":scope > .current")) block.classList.remove("current");
    if (at >= 0) box.children[at].classList.add("current");
    return box;
  }
  follow(session, block) {
    const message = block ? this.firsts.get(`${session} ${block.dataset.place}`) : undefined;
    if (message !== undefined) this.choose(message);
  }
  key(session, box, event) {
    const blocks = [...box.querySelectorAll(":scope > [data-place]")], here = blocks.indexOf(document.activeElement);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter" && here >= 0 && !document.activeElement.matches("summary")) { event.preventDefault(); return this.follow(session, blocks[here]); }
    const to = { ArrowDown: here + 1, j: here + 1, ArrowUp: here - 1, k: here - 1, Home: 0, End: blocks.length - 1 }[event.key];
    if (to === undefined || !blocks.length) return;
    event.preventDefault();
    event.stopPropagation();
    const block = blocks[Math.min(Math.max(to, 0), blocks.length - 1)];
    block.focus({ preventScroll: true });
    block.scrollIntoView({ block: "nearest" });
  }
}
