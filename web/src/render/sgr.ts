/**
 * Output of commands: colours as names of classes, everything else of the escape sequences dropped.
 *
 * A small screen: text is put at a cursor that carriage returns, backspaces and the common moves change, so that
 * progress bars look as they did. Screen programs leave their last screen. Titles, links, clipboard and answers to
 * the terminal (OSC, DCS, APC) are never looked at.
 */

export interface Run {
  text: string;
  /** Names of classes, or "". */
  look: string;
}

type Line = Run[];

const SEQUENCE =
  // CSI with its parameters | strings that end with BEL or ST | other escapes | one control character | text
  /(?:\x1b\[|\x9b)([0-?]*)[ -/]*([@-~]|$)|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c]*(?:\x07|\x1b\\|\x9c|$|(?=\x1b))|\x1b[ -/]*[0-~]?|[\x00-\x1f\x7f-\x9f]|[^\x00-\x1f\x7f-\x9f]+/g;
const FAR = 2_000;
const ROWS = 50;
const TAB = 8;

/** Return the lines of an output, each in runs of one look. */
export function sgr(text: string): Line[] {
  const screen = new Screen();
  for (const found of text.matchAll(SEQUENCE)) screen.take(found[0], found[1], found[2]);
  return screen.end();
}

/** Return the last lines of a text, and how many there are before them. */
export function lastLines(text: string, most: number): { text: string; before: number } {
  let from = text.length;
  if (text.endsWith("\n")) from--;
  for (let n = 0; n < most; n++) {
    from = text.lastIndexOf("\n", from - 1);
    if (from <= 0) return { text, before: 0 };
  }
  let before = 1;
  for (let at = text.indexOf("\n"); at >= 0 && at < from; at = text.indexOf("\n", at + 1)) before++;
  return { text: text.slice(from + 1), before };
}

class Screen {
  #lines: Line[] = [[]];
  #row = 0;
  #column = 0;
  #look = new Look();
  #kept: Line[] | null = null;

  take(found: string, parameters: string | undefined, final: string | undefined): void {
    if (final) return this.#control(parameters ?? "", final);
    const first = found.charCodeAt(0);
    if (found === "\n") {
      this.#move(this.#row + 1, 0);
    } else if (found === "\r") this.#column = 0;
    else if (found === "\b") this.#column = Math.max(0, this.#column - 1);
    else if (found === "\t") this.#put(" ".repeat(TAB - (this.#column % TAB)));
    else if (first >= 0x20 && (first < 0x7f || first > 0x9f)) this.#put(found);
  }

  end(): Line[] {
    if (this.#kept !== null) this.#leave();
    const lines = this.#lines;
    while (lines.length > 1 && lines.at(-1)?.length === 0) lines.pop();
    return lines;
  }

  #control(parameters: string, final: string): void {
    const [n = 0, m = 0] = parameters.split(";").map((part) => Math.min(FAR, Number.parseInt(part, 10) || 0));
    const top = Math.max(0, this.#lines.length - ROWS);
    if (final === "m") this.#look.set(parameters);
    else if (final === "A") this.#move(Math.max(top, this.#row - (n || 1)), this.#column);
    else if (final === "B") this.#move(Math.min(this.#lines.length - 1, this.#row + (n || 1)), this.#column);
    else if (final === "C") this.#column = Math.min(FAR, this.#column + (n || 1));
    else if (final === "D") this.#column = Math.max(0, this.#column - (n || 1));
    else if (final === "G") this.#column = Math.max(0, n - 1);
    else if (final === "H" || final === "f") {
      const start = this.#kept === null ? top : 0;
      this.#move(start + Math.min(ROWS, Math.max(0, n - 1)), Math.max(0, m - 1));
    } else if (final === "K") this.#erase(n);
    else if (final === "J") {
      if (n >= 2) {
        // A cleared screen: what was on it is gone, what scrolled away before it stays.
        this.#lines.splice(top);
        this.#move(top, this.#column);
      } else if (n === 0) {
        this.#erase(0);
        this.#lines.splice(this.#row + 1);
      }
    } else if (/^\?(?:47|1047|1049)$/.test(parameters)) {
      if (final === "h" && this.#kept === null) {
        this.#kept = this.#lines;
        this.#lines = [[]];
        this.#move(0, 0);
      } else if (final === "l" && this.#kept !== null) this.#leave();
    }
  }

  // The other screen is over: its last state goes behind what was there before.
  #leave(): void {
    const last = this.#lines;
    while (last.length > 0 && last.at(-1)?.length === 0) last.pop();
    this.#lines = [...(this.#kept ?? []), ...last, []];
    this.#kept = null;
    this.#move(this.#lines.length - 1, 0);
  }

  #move(row: number, column: number): void {
    this.#row = row;
    this.#column = column;
    while (this.#lines.length <= row) this.#lines.push([]);
  }

  #erase(which: number): void {
    const line = this.#lines[this.#row] ?? [];
    if (which === 2) this.#lines[this.#row] = [];
    else if (which === 1) this.#lines[this.#row] = [{ text: " ".repeat(this.#column), look: "" }, ...behind(line, this.#column)];
    else this.#lines[this.#row] = before(line, this.#column);
  }

  #put(text: string): void {
    const line = this.#lines[this.#row] ?? [];
    const look = this.#look.names;
    const width = widthOf(line);
    if (this.#column === width) {
      const last = line.at(-1);
      if (last !== undefined && last.look === look) last.text += text;
      else line.push({ text, look });
    } else {
      const left = before(line, this.#column);
      const gap = this.#column - widthOf(left);
      if (gap > 0) left.push({ text: " ".repeat(gap), look: "" });
      this.#lines[this.#row] = [...left, { text, look }, ...behind(line, this.#column + text.length)];
    }
    this.#column += text.length;
  }
}

const widthOf = (line: Line): number => line.reduce((sum, run) => sum + run.text.length, 0);

function before(line: Line, column: number): Line {
  const kept: Line = [];
  let at = 0;
  for (const run of line) {
    if (at >= column) break;
    kept.push({ text: run.text.slice(0, column - at), look: run.look });
    at += run.text.length;
  }
  return kept;
}

function behind(line: Line, column: number): Line {
  const kept: Line = [];
  let at = 0;
  for (const run of line) {
    const text = run.text.slice(Math.max(0, column - at));
    if (text !== "") kept.push({ text, look: run.look });
    at += run.text.length;
  }
  return kept;
}

// Eight colours are enough for a page whose colours mean state: grey, red, green, amber, blue, violet, cyan, ink.
const COLOURS = ["c-d", "c-r", "c-g", "c-y", "c-b", "c-m", "c-c", ""];

class Look {
  names = "";
  #colour = "";
  #has = new Set<string>();

  set(parameters: string): void {
    const codes = parameters.split(/[;:]/).map((part) => Number.parseInt(part, 10) || 0);
    for (let at = 0; at < codes.length; at++) {
      const code = codes[at] ?? 0;
      if (code === 0) {
        this.#colour = "";
        this.#has.clear();
      } else if (code === 1) this.#has.add("c-o");
      else if (code === 2) this.#has.add("c-f");
      else if (code === 3) this.#has.add("c-i");
      else if (code === 4) this.#has.add("c-u");
      else if (code === 7) this.#has.add("c-v");
      else if (code === 9) this.#has.add("c-s");
      else if (code === 22) for (const name of ["c-o", "c-f"]) this.#has.delete(name);
      else if (code >= 23 && code <= 29) this.#has.delete({ 23: "c-i", 24: "c-u", 27: "c-v", 29: "c-s" }[code] ?? "");
      else if (code >= 30 && code <= 37) this.#colour = COLOURS[code - 30] ?? "";
      else if (code >= 90 && code <= 97) this.#colour = COLOURS[code - 90] ?? "";
      else if (code === 39) this.#colour = "";
      else if (code === 38 || code === 48) {
        const isIndexed = codes[at + 1] === 5;
        if (code === 38) {
          const [r = 0, g = 0, b = 0] = codes.slice(at + 2);
          this.#colour = isIndexed ? indexed(codes[at + 2] ?? 0) : nearest(r, g, b);
        }
        at += isIndexed ? 2 : 4;
      }
    }
    this.names = [this.#colour, ...this.#has].filter(Boolean).join(" ");
  }
}

function indexed(n: number): string {
  if (n < 16) return COLOURS[n % 8] ?? "";
  if (n >= 232) return n < 244 ? "c-d" : "";
  const rest = n - 16;
  const level = (part: number): number => (part % 6) * 51;
  return nearest(level(Math.floor(rest / 36)), level(Math.floor(rest / 6)), level(rest));
}

function nearest(r: number, g: number, b: number): string {
  const most = Math.max(r, g, b);
  const least = Math.min(r, g, b);
  if (most - least < 40) return most < 150 ? "c-d" : "";
  const half = (most + least) / 2;
  return COLOURS[(r > half ? 1 : 0) + (g > half ? 2 : 0) + (b > half ? 4 : 0)] ?? "";
}
