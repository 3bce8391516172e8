/** What the list of sessions is narrowed to; shared with the palette. */
import { signal } from "@preact/signals";

export const folder = signal("");
export const agent = signal("");
export const text = signal("");

export function clearFilter(): void {
  folder.value = agent.value = text.value = "";
}
