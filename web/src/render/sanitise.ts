/**
 * The one place where HTML becomes elements: DOMPurify under the Trusted Types policy `dompurify`.
 *
 * What passes is a list of our own: text, lists, tables, code, links. No `style`, `id`, `name`, form, SVG or MathML,
 * and no class but the language of a code block, so that an agent's words cannot look like the host's. Links are
 * `https:` and `mailto:` and show their host. An image passes as data only; one of another host becomes a link.
 */
import DOMPurify from "dompurify";
import { words } from "../words";
import { visible } from "./visible";

const TAGS =
  "a b blockquote br code dd del dl dt em h3 hr i img kbd li mark ol p pre q s samp small strong sub sup table tbody td tfoot th thead tr ul var";
const ATTRIBUTES = "align alt class colspan data-depth data-remote href rowspan src start title";
const PICTURE = /^data:image\/(?:png|jpeg|gif|webp);base64,[\w+/=\s]+$/i;
const LANGUAGE = /^language-[\w+#.-]{1,24}$/;

const purify = DOMPurify(window);
purify.addHook("uponSanitizeElement", (node) => {
  if (!(node instanceof Element) || node.localName !== "img") return;
  // Before anything is taken over into the page: an element with a remote address must never reach it.
  const source = node.getAttribute("src") ?? "";
  node.removeAttribute("srcset");
  if (PICTURE.test(source)) return;
  node.removeAttribute("src");
  node.setAttribute("data-remote", source);
});
purify.addHook("uponSanitizeAttribute", (node, found) => {
  if (found.attrName === "class") found.keepAttr = node.localName === "code" && LANGUAGE.test(found.attrValue);
  else if (found.attrName === "src") found.keepAttr = node.localName === "img" && PICTURE.test(found.attrValue);
  else if (found.attrName === "href") found.keepAttr = node.localName === "a" && addressOf(found.attrValue) !== null;
});

/** Return the elements of a piece of HTML, safe to be put into the page. */
export function sanitise(html: string): DocumentFragment {
  const made = purify.sanitize(html, {
    ALLOWED_TAGS: TAGS.split(" "),
    ALLOWED_ATTR: ATTRIBUTES.split(" "),
    ALLOWED_URI_REGEXP: /^(?:https:|mailto:)/i,
    ADD_URI_SAFE_ATTR: ["data-remote"],
    ALLOW_ARIA_ATTR: false,
    ALLOW_DATA_ATTR: false,
    KEEP_CONTENT: true,
    RETURN_DOM_FRAGMENT: true,
  });
  for (const image of made.querySelectorAll("img")) finishImage(image);
  for (const link of made.querySelectorAll("a")) finishLink(link);
  for (const table of made.querySelectorAll("table")) {
    const around = region(words.thread.table);
    table.replaceWith(around);
    around.append(table);
  }
  for (const code of made.querySelectorAll("pre")) {
    code.tabIndex = 0;
    code.setAttribute("role", "region");
    code.setAttribute("aria-label", words.thread.code);
  }
  spell(made);
  return made;
}

/** Return an address that may be opened, or null. */
export function addressOf(text: string): URL | null {
  try {
    const address = new URL(text);
    return address.protocol === "https:" || address.protocol === "mailto:" ? address : null;
  } catch {
    return null;
  }
}

function finishLink(link: HTMLAnchorElement): void {
  const address = addressOf(link.getAttribute("href") ?? "");
  if (address === null) {
    // Not a link any more; its words stay.
    link.replaceWith(...link.childNodes);
    return;
  }
  link.className = "link";
  link.target = "_blank";
  link.rel = "noopener noreferrer";
  const shown = (link.textContent ?? "").trim();
  if (shown === "") link.append(address.href);
  // The host as the browser writes it: look-alike letters are in punycode.
  const host = address.protocol === "mailto:" ? address.pathname : address.host;
  const isShown = shown === host || shown === `https://${host}` || shown.startsWith(`https://${host}/`);
  if (isShown || shown === "") return;
  const name = document.createElement("span");
  name.className = "to";
  name.textContent = ` (${host})`;
  link.after(name);
}

function finishImage(image: HTMLImageElement): void {
  image.loading = "lazy";
  image.decoding = "async";
  if (!image.alt) image.alt = words.thread.picture;
  if (image.hasAttribute("src")) return;
  const address = addressOf(image.getAttribute("data-remote") ?? "");
  if (address === null || address.protocol !== "https:") {
    image.replaceWith(image.alt);
    return;
  }
  const link = document.createElement("a");
  link.href = address.href;
  link.title = words.thread.remotePicture;
  link.textContent = image.alt;
  image.replaceWith(link);
}

function region(name: string): HTMLElement {
  const made = document.createElement("div");
  made.className = "wide";
  made.tabIndex = 0;
  made.setAttribute("role", "region");
  made.setAttribute("aria-label", name);
  return made;
}

function spell(made: DocumentFragment): void {
  const walker = document.createTreeWalker(made, NodeFilter.SHOW_TEXT);
  const found: Text[] = [];
  while (walker.nextNode() !== null) found.push(walker.currentNode as Text);
  for (const node of found) {
    const pieces = visible(node.data);
    if (pieces.every((piece) => !piece.isSpelled)) continue;
    node.replaceWith(
      ...pieces.map((piece) => {
        if (!piece.isSpelled) return piece.text;
        const chip = document.createElement("span");
        chip.className = "chip bad";
        chip.textContent = piece.text;
        return chip;
      }),
    );
  }
}
