/** The agent that a new session was asked for with, and the one that was used last. */
import { signal } from "@preact/signals";

export const freshAgent = signal("");
