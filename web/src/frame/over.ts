/** What is open above the screens. */
import { signal } from "@preact/signals";

export const over = signal<"palette" | "keys" | null>(null);
