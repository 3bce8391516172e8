// Filters, views and the strip of time above the list.

class Page {
  constructor(recording) {
    this.recording = recording;
    this.list = new List(recording, (i) => this.choose(i));
    this.detail = new Detail(recording, (i) => this.choose(i));
    this.field = (id) => document.getElementById(id);
    this.head();
    this.fillSelects();
    this.listen();
    this.apply();
    this.fillFindings();
    this.fillStats();
    this.follow();
  }
  // `#42` in the address is message 42.
  follow() {
    const wanted = Number(/^#(\d+)$/.exec(location.hash)?.[1]);
    if (wanted >= 1 && wanted <= this.recording.length) this.choose(wanted - 1);
  }
  head() {
    const { header, title, facts, counts } = this.recording;
    this.field("name").textContent = oneLine(title.split(/[\\/]/).pop() || title);
    this.field("name").title = oneLine(title);
    this.field("facts").textContent = oneLine([...facts, header.command.join(" "), header.started, header.redacted ? "redacted" : ""].filter(Boolean).join(" · "));
    for (const grade of ["bad", "warn", "note"]) if (counts[grade]) this.field("badges").append(make("span", { class: `badge ${grade}` }, String(counts[grade])));
  }
  fillSelects() {
    const { sessions, names } = this.recording, option = (value, text) => make("option", { value }, text);
    this.field("session").append(option("", "all sessions"), ...sessions.map((name, i) => option(String(i), oneLine(`s${i + 1} ${name}`))));
    const sorted = names.map((name, i) => [name, i]).filter(([name]) => name).sort(([a], [b]) => (a < b ? -1 : 1));
    this.field("method").append(option("", "all methods"), ...sorted.map(([name, i]) => option(String(i), oneLine(name))));
  }
  listen() {
    let timer = 0;
    const soon = () => { clearTimeout(timer); timer = setTimeout(() => this.apply(), 120); };
    this.field("search").addEventListener("input", soon);
    for (const id of ["session", "method", "dir", "errors", "marked", "each"]) this.field(id).addEventListener("change", () => this.apply());
    this.field("filters").addEventListener("reset", () => setTimeout(() => this.apply()));
    this.field("filters").addEventListener("submit", (event) => { event.preventDefault(); this.apply(); });
    for (const tab of document.querySelectorAll("nav [data-view]")) tab.addEventListener("click", () => this.view(tab.dataset.view));
    this.field("theme").addEventListener("click", () => this.changeTheme());
    this.keys = new Keys(this);
    addEventListener("hashchange", () => this.follow());
    this.field("strip").addEventListener("click", (event) => this.goTo(event));
    new ResizeObserver(() => this.drawStrip()).observe(this.field("strip"));
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.drawStrip());
    this.listenDivider();
  }
  listenDivider() {
    const divider = this.field("divider");
    divider.addEventListener("pointerdown", (event) => divider.setPointerCapture(event.pointerId));
    divider.addEventListener("pointermove", (event) => {
      if (!divider.hasPointerCapture(event.pointerId)) return;
      const width = Math.min(Math.max(innerWidth - event.clientX, 280), innerWidth - 360);
      document.documentElement.style.setProperty("--detail", `${width}px`);
    });
  }
  apply() {
    const recording = this.recording, value = (id) => this.field(id).value, on = (id) => this.field(id).checked;
    const text = value("search").trim().toLowerCase(), session = value("session"), method = value("method"), dir = value("dir");
    const errors = on("errors"), marked = on("marked");
    const wants = (i) => (session === "" || recording.session[i] === Number(session)) && (method === "" || recording.name[i] === Number(method))
      && (dir === "" || recording.dir[i] === Number(dir)) && (!errors || recording.isError(i))
      && (!marked || (recording.marks.get(i) ?? []).some((mark) => mark.grade !== "note"));
    const found = text ? this.search(text) : null;
    this.list.filter(found ? (i) => found.has(recording.run[i]) && wants(i) : wants, on("each"));
    let shown = 0;
    for (const [, count] of this.list.shown) shown += count;
    this.field("count").textContent = shown === recording.length ? `${shown.toLocaleString("en")} messages` : `${shown.toLocaleString("en")} of ${recording.length.toLocaleString("en")}`;
  }
  // The runs that contain a text, in one of their messages or across several chunks.
  search(text) {
    const recording = this.recording, found = new Set();
    let joined = "", run = -1;
    for (let i = 0; i < recording.length; i++) {
      if (recording.run[i] !== run) { joined = ""; run = recording.run[i]; }
      if (found.has(run)) continue;
      joined = (joined + recording.summary[i]).slice(-4000);
      if (joined.toLowerCase().includes(text) || recording.method(i).toLowerCase().includes(text) || recording.text(i).toLowerCase().includes(text)) found.add(run);
    }
    return found;
  }
  choose(i) {
    if (this.field("view-timeline").hidden) this.view("timeline");
    this.list.show(i);
    this.detail.show(i);
    this.drawStrip();
    history.replaceState(null, "", `#${i + 1}`);
  }
  view(name) {
    for (const tab of document.querySelectorAll("nav [data-view]")) {
      tab.setAttribute("aria-selected", String(tab.dataset.view === name));
      this.field(`view-${tab.dataset.view}`).hidden = tab.dataset.view !== name;
    }
    this.list.redraw();
  }
  // What the pane next to the list shows.
  pane(name) {
    this.view("timeline");
    this.detail.tab = name;
    this.detail.show(this.list.chosen);
    if (name === "conversation") this.detail.box.querySelector(".conversation")?.focus({ preventScroll: true });
  }
  changeTheme() {
    const root = document.documentElement, isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = isDark ? "light" : "dark";
    this.drawStrip();
  }
  goTo(event) {
    const recording = this.recording, box = this.field("strip").getBoundingClientRect();
    const t = ((event.clientX - box.left) / box.width) * this.span();
    let low = 0, high = recording.length - 1;
    while (low < high) { const middle = (low + high) >> 1; if (recording.t[middle] < t) low = middle + 1; else high = middle; }
    if (recording.length) this.choose(low);
  }
  span() { return Math.max(this.recording.t[this.recording.length - 1] ?? 0, 0.001); }
  drawStrip() {
    const canvas = this.field("strip"), colour = (name) => { canvas.style.color = `var(${name})`; return getComputedStyle(canvas).color; };
    const width = canvas.clientWidth, height = 44, ratio = devicePixelRatio || 1, recording = this.recording;
    if (!width) return;
    canvas.width = width * ratio; canvas.height = height * ratio;
    const pen = canvas.getContext("2d");
    pen.scale(ratio, ratio);
    const bars = Math.max(1, Math.floor(width / 3)), up = new Float64Array(bars), down = new Float64Array(bars), bad = new Uint8Array(bars), scale = bars / this.span();
    for (let i = 0; i < recording.length; i++) {
      const bar = Math.min(bars - 1, Math.floor(recording.t[i] * scale));
      if (recording.dir[i] === 1) up[bar]++; else if (recording.dir[i] === 2) down[bar]++;
      if (recording.isError(i) || (recording.marks.get(i) ?? []).some((mark) => mark.grade === "bad")) bad[bar] = 1;
    }
    const most = Math.log1p(Math.max(1, ...up, ...down)), step = width / bars, middle = height / 2;
    const draw = (values, sign, fill) => {
      pen.fillStyle = fill;
      values.forEach((value, bar) => { const tall = value ? Math.max(1.5, (Math.log1p(value) / most) * (middle - 4)) : 0; pen.fillRect(bar * step, sign > 0 ? middle - tall : middle, step - 1, tall); });
    };
    draw(up, 1, colour("--client"));
    draw(down, -1, colour("--agent"));
    pen.fillStyle = colour("--bad");
    bad.forEach((is, bar) => { if (is) pen.fillRect(bar * step, height - 3, step, 3); });
    if (this.list.chosen >= 0) { pen.fillStyle = colour("--accent"); pen.fillRect((recording.t[this.list.chosen] / this.span()) * width - 0.75, 0, 1.5, height); }
  }
  fillFindings() {
    const { findings, rules } = this.recording, groups = new Map(), box = this.field("view-findings");
    for (const [row, rule, level, dir, message] of findings) {
      const key = `${rule} ${level} ${dir}`;
      if (!groups.has(key)) groups.set(key, { rule, level, dir, grade: gradeOf(level), places: [] });
      groups.get(key).places.push([row, message]);
    }
    const order = { bad: 0, warn: 1, note: 2 }, titles = { bad: "Broken rules", warn: "Advice not followed, habits peers rely on", note: "Worth knowing" };
    const sorted = [...groups.values()].sort((a, b) => order[a.grade] - order[b.grade] || a.rule - b.rule);
    if (!sorted.length) box.append(make("p", { class: "none" }, "No broken rule was seen."));
    let grade = "";
    for (const group of sorted) {
      if (group.grade !== grade) box.append(make("h2", {}, titles[(grade = group.grade)]));
      const places = group.places.slice(0, 8).map(([row, message]) => make("li", {}, make("button", { class: "link", type: "button", onclick: () => this.choose(row) }, `message ${row + 1}`), `: ${visible(message)}`));
      if (group.places.length > 8) places.push(make("li", { class: "hint" }, `${group.places.length - 8} more`));
      box.append(make("div", { class: `group ${group.grade}` },
        make("h3", {}, make("span", { class: "level" }, `Rule ${group.rule} · ${group.level}`), `${group.dir === 1 ? "client" : "agent"} · ×${group.places.length}`),
        make("p", {}, rules[group.rule][2]), make("ul", {}, ...places)));
    }
  }
  fillStats() {
    const { stats, sessions } = this.recording, box = this.field("view-stats");
    const head = ["", "→", "←", "→ bytes", "← bytes", "errors", "unanswered", "p50", "p90", "p99", "max"];
    const table = (what, entries) => make("table", {}, make("thead", {}, make("tr", {}, ...head.map((name) => make("th", {}, name || what)))),
      make("tbody", {}, ...entries.map(([name, tally]) => make("tr", {}, make("td", { title: name }, oneLine(name)),
        ...[tally.messages.c2a, tally.messages.a2c].map((n) => make("td", {}, n ? n.toLocaleString("en") : "")),
        ...[tally.bytes.c2a, tally.bytes.a2c].map((n) => make("td", {}, n ? size(n) : "")),
        make("td", { class: "bad" }, tally.errors ? String(tally.errors) : ""), make("td", {}, tally.unanswered ? String(tally.unanswered) : ""),
        ...["p50", "p90", "p99", "max"].map((key) => make("td", {}, tally.latency ? duration(tally.latency[key]) : ""))))));
    box.append(make("h2", {}, `Methods and updates, in ${duration(stats.seconds)}`), table("method", [...Object.entries(stats.methods), ["in all", stats.total]]));
    if (sessions.length) box.append(make("h2", {}, "Sessions"), table("session", Object.entries(stats.sessions).map(([name, tally]) => [`s${sessions.indexOf(name) + 1} ${name}`, tally])));
  }
}

readRecording().then(
  (recording) => { window.inspect = { recording, page: new Page(recording), Folder, grow }; document.documentElement.dataset.ready = "yes"; },
  (error) => { document.getElementById("facts").textContent = `This browser cannot show the recording: ${error}`; document.documentElement.dataset.ready = "no"; },
);
