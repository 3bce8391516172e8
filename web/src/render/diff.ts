/** Changed lines of two texts, in hunks, with the changed words marked. No DOM. */

export interface Span {
  text: string;
  isMarked: boolean;
}

export interface DiffRow {
  kind: "same" | "add" | "del" | "gap";
  before?: number;
  after?: number;
  spans: Span[];
}

export interface Diff {
  rows: DiffRow[];
  added: number;
  removed: number;
}

const CONTEXT = 3;
// Above this many differences a shortest script costs more than it shows: the middle is then replaced as a whole.
const MOST_LINES = 800;
const MOST_WORDS = 120;

type Step = "same" | "add" | "del";

/** Return the rows of a unified diff; `first` is the number of the first line of both texts. */
export function diffOf(oldText: string | null, newText: string, first = 1): Diff {
  const before = lines(oldText ?? "");
  const after = lines(newText);
  const steps = script(before, after, MOST_LINES);
  const rows: DiffRow[] = [];
  let added = 0;
  let removed = 0;
  let b = 0;
  let a = 0;
  for (const step of steps) {
    if (step === "same") rows.push({ kind: "same", before: first + b++, after: first + a++, spans: whole(before[b - 1]) });
    else if (step === "del") {
      removed++;
      rows.push({ kind: "del", before: first + b++, spans: whole(before[b - 1]) });
    } else {
      added++;
      rows.push({ kind: "add", after: first + a++, spans: whole(after[a - 1]) });
    }
  }
  markWords(rows);
  return { rows: withoutFarLines(rows), added, removed };
}

function lines(text: string): string[] {
  if (text === "") return [];
  const found = text.split(/\r?\n/);
  if (found.at(-1) === "") found.pop();
  return found;
}

const whole = (text = ""): Span[] => [{ text, isMarked: false }];

function withoutFarLines(rows: DiffRow[]): DiffRow[] {
  const near = new Uint8Array(rows.length);
  rows.forEach((row, at) => {
    if (row.kind === "same") return;
    near.fill(1, Math.max(0, at - CONTEXT), Math.min(rows.length, at + CONTEXT + 1));
  });
  const kept: DiffRow[] = [];
  rows.forEach((row, at) => {
    if (near[at] === 1) kept.push(row);
    else if (kept.length > 0 && kept.at(-1)?.kind !== "gap") kept.push({ kind: "gap", spans: [] });
  });
  if (kept.at(-1)?.kind === "gap") kept.pop();
  return kept;
}

// Lines that were replaced one for one are compared word by word; lines that have little in common are left whole.
function markWords(rows: DiffRow[]): void {
  for (let at = 0; at < rows.length; ) {
    if (rows[at]?.kind !== "del") {
      at++;
      continue;
    }
    let middle = at;
    while (rows[middle]?.kind === "del") middle++;
    let end = middle;
    while (rows[end]?.kind === "add") end++;
    const pairs = Math.min(middle - at, end - middle);
    for (let n = 0; n < pairs; n++) markPair(rows[at + n], rows[middle + n]);
    at = end;
  }
}

function markPair(old: DiffRow | undefined, made: DiffRow | undefined): void {
  if (old === undefined || made === undefined) return;
  const [from, to] = [old.spans[0]?.text ?? "", made.spans[0]?.text ?? ""];
  if (from.length + to.length > 4_000) return;
  const [a, b] = [wordsOf(from), wordsOf(to)];
  const steps = script(a, b, MOST_WORDS);
  let common = 0;
  let at = 0;
  for (const step of steps) {
    if (step === "same" && a[at]?.trim() !== "") common += a[at]?.length ?? 0;
    if (step !== "add") at++;
  }
  const longest = Math.max(from.replace(/\s/g, "").length, to.replace(/\s/g, "").length);
  if (common * 3 < longest) return;
  old.spans = spansOf(steps, a, "del");
  made.spans = spansOf(steps, b, "add");
}

const wordsOf = (text: string): string[] => text.match(/[\p{L}\p{N}_]+|\s+|[^\p{L}\p{N}_\s]/gu) ?? [];

function spansOf(steps: Step[], words: string[], own: Step): Span[] {
  const spans: Span[] = [];
  let at = 0;
  for (const step of steps) {
    if (step !== "same" && step !== own) continue;
    const text = words[at++] ?? "";
    const isMarked = step === own;
    const last = spans.at(-1);
    if (last !== undefined && last.isMarked === isMarked) last.text += text;
    else spans.push({ text, isMarked });
  }
  return spans;
}

/** Return the shortest steps from one list to the other (Myers), or a replacement of the middle above `most`. */
export function script(a: readonly string[], b: readonly string[], most: number): Step[] {
  let head = 0;
  while (head < a.length && head < b.length && a[head] === b[head]) head++;
  let tail = 0;
  while (tail < a.length - head && tail < b.length - head && a[a.length - 1 - tail] === b[b.length - 1 - tail]) tail++;
  const middle = shortest(a.slice(head, a.length - tail), b.slice(head, b.length - tail), most);
  return [...Array<Step>(head).fill("same"), ...middle, ...Array<Step>(tail).fill("same")];
}

function shortest(a: readonly string[], b: readonly string[], most: number): Step[] {
  const [n, m] = [a.length, b.length];
  const replaced: Step[] = [...Array<Step>(n).fill("del"), ...Array<Step>(m).fill("add")];
  if (n === 0 || m === 0) return replaced;
  const bound = Math.min(n + m, most);
  const ends = new Int32Array(2 * bound + 3);
  const middle = bound + 1;
  const trace: Int32Array[] = [];
  for (let d = 0; d <= bound; d++) {
    trace.push(ends.slice(middle - d - 1, middle + d + 2));
    for (let k = -d; k <= d; k += 2) {
      const down = k === -d || (k !== d && (ends[middle + k - 1] ?? 0) < (ends[middle + k + 1] ?? 0));
      let x = down ? (ends[middle + k + 1] ?? 0) : (ends[middle + k - 1] ?? 0) + 1;
      while (x < n && x - k < m && a[x] === b[x - k]) x++;
      ends[middle + k] = x;
      if (x >= n && x - k >= m) return back(trace, n, m);
    }
  }
  return replaced;
}

function back(trace: Int32Array[], n: number, m: number): Step[] {
  const steps: Step[] = [];
  let [x, y] = [n, m];
  for (let d = trace.length - 1; d > 0; d--) {
    const row = trace[d] ?? new Int32Array();
    const at = (k: number): number => row[k + d + 1] ?? 0;
    const k = x - y;
    const down = k === -d || (k !== d && at(k - 1) < at(k + 1));
    const fromK = down ? k + 1 : k - 1;
    const fromX = at(fromK);
    const fromY = fromX - fromK;
    while (x > fromX && y > fromY) {
      steps.push("same");
      x--;
      y--;
    }
    if (x === fromX && y === fromY) continue;
    // One step aside, and the same lines before it in the next round.
    if (down) {
      steps.push("add");
      y--;
    } else {
      steps.push("del");
      x--;
    }
  }
  while (x > 0 && y > 0) {
    steps.push("same");
    x--;
    y--;
  }
  return steps.reverse();
}
