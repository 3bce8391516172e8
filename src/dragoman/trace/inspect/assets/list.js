// The list of messages: only the rows on screen exist, so a hundred thousand scroll like ten.

class List {
  constructor(recording, choose) {
    this.recording = recording;
    this.choose = choose;
    this.box = document.getElementById("list");
    this.space = document.getElementById("space");
    this.rows = document.getElementById("rows");
    this.shown = []; // each: [first, count, bytes], a message or a run of chunks
    this.chosen = -1; // a message, not a place in the list
    this.first = this.last = -1;
    this.measure();
    document.documentElement.style.setProperty("--number-width", `${Math.max(4, String(recording.length).length)}ch`);
    this.box.addEventListener("scroll", () => this.draw(), { passive: true });
    this.box.addEventListener("keydown", (event) => this.key(event));
    this.rows.addEventListener("click", (event) => {
      const row = event.target.closest(".row");
      if (row) this.choose(Number(row.dataset.message));
    });
    new ResizeObserver(() => { if (this.measure()) this.resize(); this.draw(); }).observe(this.box);
  }
  // The height of a row is the style sheet's: a narrow window has two lines. Returns whether it changed.
  measure() {
    const height = parseFloat(getComputedStyle(document.documentElement).getPropertyValue("--row")) || 27, before = this.height;
    this.height = height;
    return before !== height;
  }
  resize() {
    this.space.style.height = `${this.shown.length * this.height}px`;
    this.first = this.last = -1;
  }
  // The column of names is as wide as the longest one that is shown, so that the summary has the rest.
  fitNames() {
    let longest = 8;
    const widths = new Map();
    for (const [i, count] of this.shown) {
      const name = this.recording.name[i];
      if (!widths.has(name)) widths.set(name, this.title(i).length);
      longest = Math.max(longest, widths.get(name) + (this.recording.kindOf(i) === "response" ? 2 : 0) + (count > 1 ? String(count).length + 2 : 0));
    }
    document.documentElement.style.setProperty("--name-width", `${Math.min(longest, 30)}ch`);
  }
  // Messages that pass `wants`, chunks of one message as one line unless `each`.
  filter(wants, each) {
    const recording = this.recording, shown = [];
    let before = -2, run = -1;
    for (let i = 0; i < recording.length; i++) {
      if (!wants(i)) continue;
      if (!each && recording.run[i] === run && before === i - 1) {
        const line = shown[shown.length - 1];
        line[1]++;
        line[2] += recording.size[i];
      } else shown.push([i, 1, recording.size[i]]);
      before = i;
      run = recording.run[i];
    }
    this.shown = shown;
    this.resize();
    this.fitNames();
    this.draw();
  }
  // The place of a message in the list, or of the last line before it.
  place(message) {
    let low = 0, high = this.shown.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.shown[middle][0] <= message) low = middle; else high = middle - 1;
    }
    return low;
  }
  draw() {
    const first = Math.max(0, Math.floor(this.box.scrollTop / this.height) - 8);
    const last = Math.min(this.shown.length, Math.ceil((this.box.scrollTop + this.box.clientHeight) / this.height) + 8);
    if (first === this.first && last === this.last) return;
    [this.first, this.last] = [first, last];
    this.rows.style.transform = `translateY(${first * this.height}px)`;
    this.rows.replaceChildren(...this.shown.slice(first, last).map((line) => this.row(line)));
  }
  redraw() { this.first = -1; this.draw(); }
  row([i, count, bytes]) {
    const recording = this.recording, kind = recording.kindOf(i);
    const isChosen = this.chosen >= i && this.chosen < i + count;
    const isPair = this.chosen >= 0 && recording.pair[this.chosen] === i;
    const classes = ["row", kind, recording.isError(i) && "error", isChosen && "chosen", isPair && "pair"].filter(Boolean).join(" ");
    const row = make("div", { class: classes, role: "option", "aria-selected": String(isChosen), "data-message": i });
    const direction = recording.dir[i];
    const name = this.title(i);
    row.append(
      make("span", { class: "number" }, String(i + 1)),
      make("span", { class: "time" }, recording.t[i].toFixed(3)),
      make("span", { class: direction === 1 ? "to-agent" : "to-client" }, direction === 1 ? "→" : direction === 2 ? "←" : ""),
      make("span", { class: "what", title: oneLine(name) }, oneLine(name), count > 1 ? make("span", { class: "times" }, ` ×${count}`) : ""),
      this.chip(i),
      make("span", { class: "says" }, this.says(i, count)),
      make("span", { class: "took" }, kind === "response" && recording.latency[i] !== null ? duration(recording.latency[i]) : ""),
      make("span", { class: "size" }, bytes ? size(bytes) : ""),
      this.marks(i, count),
    );
    return row;
  }
  title(i) {
    const kind = this.recording.kindOf(i);
    return this.recording.method(i) || { malformed: "(not a message)", blank: "(blank line)" }[kind] || kind;
  }
  chip(i) {
    const alias = this.recording.alias(i);
    if (!alias) return make("span");
    const chip = make("span", { class: "chip", title: this.recording.sessions[this.recording.session[i]] }, alias);
    chip.style.setProperty("--hue", String((this.recording.session[i] * 67 + 205) % 360));
    return chip;
  }
  says(i, count) {
    let text = "";
    for (let k = i; k < i + count && text.length < 300; k++) text += this.recording.summary[k];
    return oneLine(text.slice(0, 400));
  }
  marks(i, count) {
    const rules = new Map();
    for (let k = i; k < i + count; k++) for (const mark of this.recording.marks.get(k) ?? []) if (mark.grade !== "note") rules.set(mark.rule, mark);
    return make("span", { class: "marks" }, ...[...rules.values()].sort((a, b) => (a.grade === "bad" ? 0 : 1) - (b.grade === "bad" ? 0 : 1)).slice(0, 1).map((mark) =>
      make("span", { class: `mark ${mark.grade}`, title: `rule ${mark.rule} ${mark.level}: ${mark.message}` }, String(mark.rule))));
  }
  show(message) {
    this.chosen = message;
    const top = this.place(message) * this.height;
    if (top < this.box.scrollTop) this.box.scrollTop = top - this.height;
    else if (top + this.height > this.box.scrollTop + this.box.clientHeight) this.box.scrollTop = top + 2 * this.height - this.box.clientHeight;
    this.redraw();
  }
  key(event) {
    const page = Math.max(1, Math.floor(this.box.clientHeight / this.height) - 1), here = this.chosen < 0 ? -1 : this.place(this.chosen);
    const to = { ArrowDown: here + 1, j: here + 1, ArrowUp: here - 1, k: here - 1, PageDown: here + page, PageUp: here - page, Home: 0, End: this.shown.length - 1 }[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey || !this.shown.length) return;
    event.preventDefault();
    this.choose(this.shown[Math.min(Math.max(to, 0), this.shown.length - 1)][0]);
  }
}
