/** What `/` and `@` complete in a text: where the word begins, and what takes its place. Pure. */
import type { Command } from "../model";

export interface Wanted {
  kind: "command" | "file";
  query: string;
  from: number;
  to: number;
}

export interface Offer {
  /** What is put in place of the word. */
  text: string;
  name: string;
  description: string;
}

/** Return the word in front of the cursor that can be completed, or null. */
export function wantedAt(text: string, cursor: number): Wanted | null {
  const before = text.slice(0, cursor);
  const command = /^\/([\w:./-]*)$/.exec(before);
  if (command !== null) return { kind: "command", query: command[1] ?? "", from: 0, to: cursor };
  const file = /(?:^|\s)@([^\s@]*)$/.exec(before);
  if (file === null) return null;
  const query = file[1] ?? "";
  return { kind: "file", query, from: cursor - query.length - 1, to: cursor };
}

/** Return the commands that a query may mean: by their beginning, then by any part. */
export function commandsFor(commands: readonly Command[], query: string): Offer[] {
  const wanted = query.toLowerCase();
  const rank = (command: Command): number => (command.name.toLowerCase().startsWith(wanted) ? 0 : command.name.toLowerCase().includes(wanted) ? 1 : 2);
  return commands
    // One without a name cannot be called; the host passes on what the agent wrote.
    .filter((command) => command.name !== "" && rank(command) < 2)
    .sort((one, other) => rank(one) - rank(other))
    .slice(0, 50)
    .map((command) => ({ text: `/${command.name} `, name: `/${command.name}`, description: command.description || command.hint || "" }));
}

export function filesFor(paths: readonly string[]): Offer[] {
  return paths.slice(0, 50).map((path) => ({ text: `@${path} `, name: path, description: "" }));
}
