"use strict";
// The recording inside this page: rows as columns, frames as lines that are parsed when one is shown.

const KINDS = ["request", "notification", "response", "malformed", "blank", "stderr", "end", "exit"];
const UPDATE = "session/update";

class Recording {
  constructor(index, frames, conversations) {
    Object.assign(this, index);
    this.frames = frames;
    this.conversations = conversations;
    this.length = this.t.length;
    this.marks = new Map();
    for (const [row, rule, level, dir, message] of this.findings) {
      if (!this.marks.has(row)) this.marks.set(row, []);
      this.marks.get(row).push({ row, rule, level, dir, message, grade: gradeOf(level) });
    }
  }
  method(i) { return this.names[this.name[i]]; }
  kindOf(i) { return KINDS[this.kind[i]]; }
  alias(i) { return this.session[i] < 0 ? "" : `s${this.session[i] + 1}`; }
  isError(i) { return this.error[i] !== null || this.kindOf(i) === "malformed"; }
  // The frame as a value; a line that is not JSON is a string.
  message(i) {
    const line = this.frames[i];
    if (!line) return null;
    try { return JSON.parse(line); } catch { return line; }
  }
  text(i) { return this.frames[i] || ""; }
}

function gradeOf(level) {
  if (level === "MUST" || level === "MUST NOT" || level === "SCHEMA") return "bad";
  return level === "EXTRA" || level === "NOTE" ? "note" : "warn";
}

async function unpack(id) {
  const element = document.getElementById(id);
  const packed = atob(element.textContent.trim());
  element.remove();
  const bytes = new Uint8Array(packed.length);
  for (let i = 0; i < packed.length; i++) bytes[i] = packed.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text();
}

async function readRecording() {
  const [index, frames, conversations] = await Promise.all([unpack("index"), unpack("frames"), unpack("conversations")]);
  return new Recording(JSON.parse(index), frames.split("\n"), JSON.parse(conversations));
}

// Characters that would move text, or be invisible, are shown as a symbol.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u{e0000}-\u{e007f}]/gu;
const visible = (text) => text.replace(HIDDEN, (sign) => `\\u${sign.codePointAt(0).toString(16).padStart(4, "0")}`);
const oneLine = (text) => visible(text.replace(/\r\n|[\n\r\u2028\u2029]/g, "↵").replace(/\t/g, " "));

function size(bytes) {
  if (bytes < 1000) return `${bytes}`;
  for (const unit of ["k", "M", "G"]) {
    bytes /= 1000;
    if (bytes < 999.5 || unit === "G") return (bytes < 99.95 ? bytes.toFixed(1) : bytes.toFixed(0)) + unit;
  }
}

function duration(seconds) {
  if (seconds < 0.01) return `${(seconds * 1000).toFixed(1)}ms`;
  if (seconds < 0.9995) return `${(seconds * 1000).toFixed(0)}ms`;
  if (seconds < 99.95) return `${seconds.toFixed(1)}s`;
  const all = Math.round(seconds), minutes = Math.floor(all / 60);
  const two = (n) => String(n).padStart(2, "0");
  return minutes >= 60 ? `${Math.floor(minutes / 60)}h${two(minutes % 60)}m` : `${minutes}m${two(all % 60)}s`;
}

// All content is set as text: nothing of a recording is ever read as HTML.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === false || value === null || value === undefined) continue;
    if (name === "class") element.className = value;
    else if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return element;
}
