/** Text that decides something, shown exactly: words as units, and every character that cannot be seen spelled out. */
import { Plain } from "../render/Plain";
import { visible } from "../render/visible";

// The host has spelled some itself, as <U+202E>.
const NAMED = /(<U\+[0-9A-F]{4,6}>)/;

/** Whether a text has a character that cannot be seen, or that the host has spelled out. */
export function hides(text: string): boolean {
  return NAMED.test(text) || visible(text, "exact").some((piece) => piece.isSpelled);
}

function Spelled({ text }: { text: string }) {
  return <>{text.split(NAMED).map((part, at) => (at % 2 === 1 ? <span class="chip bad" key={at}>{part.slice(1, -1)}</span> : <Plain key={at} text={part} care="exact" />))}</>;
}

/** One line: it breaks between words only. */
export function Words({ line }: { line: string }) {
  const parts = line.replaceAll("\t", "    ").split(/( +)/);
  return <>{parts.map((part, at) => (at % 2 === 1 ? part : part !== "" && <span class="w" key={at}><Spelled text={part} /></span>))}</>;
}

/** Lines of a command or a path, whole. */
export function Exact({ lines }: { lines: readonly string[] }) {
  return <code class="cmd" dir="ltr">{lines.map((line, at) => <span class="ln" key={at}><Words line={line} />{at < lines.length - 1 && "\n"}</span>)}</code>;
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
  return <code class="cmd address" dir="ltr">{`${url.protocol}${url.host === "" ? "" : "//"}`}<Spelled text={user} /><b>{url.host}</b><Spelled text={`${url.pathname}${url.search}${url.hash}`} /></code>;
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
