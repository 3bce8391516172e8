/** Which question is looked at whole, above the screen. */
import { signal } from "@preact/signals";

export const lookedAt = signal<string | null>(null);
