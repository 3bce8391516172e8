/** Where the page is: the fragment of the address, as a place. */
import { signal, type ReadonlySignal } from "@preact/signals";

export type Place =
  | { name: "board" | "inbox" | "new" | "devices" | "settings" }
  /** `rest`: what follows the session in the path, for the screens of a session. */
  | { name: "session"; id: string; rest: readonly string[] };

function parts(fragment: string): string[] {
  return fragment
    .replace(/^#?\/?/, "")
    .split("/")
    .map((part) => {
      try {
        return decodeURIComponent(part);
      } catch {
        return "";
      }
    });
}

function read(fragment: string): Place {
  const [first = "", second = "", ...rest] = parts(fragment);
  if (first === "s" && second !== "") return { name: "session", id: second, rest };
  if (first === "inbox" || first === "new" || first === "devices" || first === "settings") return { name: first };
  return { name: "board" };
}

const current = signal<Place>(read(location.hash.startsWith("#/") ? location.hash : ""));

export const place: ReadonlySignal<Place> = current;

/** Goes to a path such as `/inbox`; `instead` leaves no entry in the history of the browser. */
export function go(path: string, instead = false): void {
  const fragment = `#${path}`;
  if (location.hash === fragment) return;
  if (instead) {
    history.replaceState(null, "", fragment);
    current.value = read(fragment);
  } else {
    location.hash = fragment;
  }
}

/** Returns the path of a session. */
export function pathOf(sessionId: string, ...rest: string[]): string {
  return `/s/${[sessionId, ...rest].map(encodeURIComponent).join("/")}`;
}

addEventListener("hashchange", () => {
  if (location.hash === "" || location.hash.startsWith("#/")) current.value = read(location.hash);
});
