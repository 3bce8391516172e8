/** Text that decides something, shown exactly: words as units, and every character that cannot be seen spelled out. */
import type { VNode } from "preact";

// Controls, formats (also those that turn the direction), private, unassigned and half characters, separators, spaces
// other than the plain one, and characters without width or shape that are called letters or marks.
const HIDDEN =
  /[\p{Cc}\p{Cf}\p{Co}\p{Cn}\p{Cs}\p{Zl}\p{Zp}\u00a0\u1680\u2000-\u200a\u202f\u205f\u3000\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0\ufe00-\ufe0f\u{e0100}-\u{e01ef}]/u;
const PIECES = new RegExp(`<U\\+[0-9A-F]{4,6}>|${HIDDEN.source}`, "gu");

/** Whether a text has a character that cannot be seen, or that the host has spelled out. */
export function hides(text: string): boolean {
  const found = text.replaceAll("\n", "").replaceAll("\t", "").match(PIECES);
  return found !== null;
}

function spelled(piece: string): string {
  if (piece.startsWith("<")) return piece.slice(1, -1);
  return `U+${(piece.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** A run of text in which hidden characters are marked by their numbers. */
function Spelled({ text }: { text: string }) {
  const shown: (string | VNode)[] = [];
  let end = 0;
  for (const match of text.matchAll(PIECES)) {
    shown.push(text.slice(end, match.index), <span class="hid">{spelled(match[0])}</span>);
    end = match.index + match[0].length;
  }
  return <>{...shown}{text.slice(end)}</>;
}

/** One line: it breaks between words only. */
export function Words({ line }: { line: string }) {
  const parts = line.replaceAll("\t", "    ").split(/( +)/);
  return <>{parts.map((part, at) => (at % 2 === 1 ? part : part !== "" && <span class="w" key={at}><Spelled text={part} /></span>))}</>;
}

/** Lines of a command or a path, whole. */
export function Exact({ lines }: { lines: readonly string[] }) {
  return <code class="cmd" dir="ltr">{lines.map((line, at) => <>{at > 0 && "\n"}<Words key={at} line={line} /></>)}</code>;
}

/** An address, whole; its host stands out and is written in ASCII, so that look-alikes show. */
export function Address({ address }: { address: string }) {
  let url: URL;
  try {
    url = new URL(address);
  } catch {
    return <code class="cmd" dir="ltr"><Spelled text={address} /></code>;
  }
  const user = url.username === "" ? "" : `${url.username}${url.password === "" ? "" : `:${url.password}`}@`;
  return <code class="cmd" dir="ltr">{`${url.protocol}//`}<Spelled text={user} /><b>{url.host}</b><Spelled text={`${url.pathname}${url.search}${url.hash}`} /></code>;
}

/** Whether an address may be opened from the page. */
export function canOpen(address: string): boolean {
  try {
    const url = new URL(address);
    return (url.protocol === "https:" || url.protocol === "http:") && url.username === "" && url.password === "";
  } catch {
    return false;
  }
}
