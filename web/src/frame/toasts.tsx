/** Short notes about what the user just did, with a way back; never about questions. */
import { signal } from "@preact/signals";
import { useEffect, useState } from "preact/hooks";
import { words } from "../words";
import { Icon } from "./icon";

const SHOWN = 6000; // milliseconds

interface Toast {
  id: number;
  text: string;
  action?: { label: string; run: () => void };
}

const shown = signal<readonly Toast[]>([]);
let last = 0;

/** Shows a note for six seconds; it stays while the pointer or the focus is on it. */
export function toast(text: string, action?: { label: string; run: () => void }): void {
  shown.value = [...shown.value.slice(-2), { id: ++last, text, ...(action === undefined ? {} : { action }) }];
}

/** Says that something the user asked for did not work. */
export function toastFailure(error: unknown): void {
  toast(words.frame.failed(error instanceof Error ? error.message : String(error)));
}

function close(id: number): void {
  shown.value = shown.value.filter((note) => note.id !== id);
}

function Note({ note }: { note: Toast }) {
  const [isHeld, hold] = useState(false);
  useEffect(() => {
    if (isHeld) return;
    const timer = setTimeout(() => close(note.id), SHOWN);
    return () => clearTimeout(timer);
  }, [isHeld, note.id]);
  return (
    <div
      class="toast"
      onPointerEnter={() => hold(true)}
      onPointerLeave={() => hold(false)}
      onFocusIn={() => hold(true)}
      onFocusOut={() => hold(false)}
    >
      <span class="grow" dir="auto">{note.text}</span>
      {note.action !== undefined && (
        <button type="button" class="btn quiet" onClick={() => { note.action?.run(); close(note.id); }}>{note.action.label}</button>
      )}
      <button type="button" class="btn quiet icon" aria-label={words.frame.close} onClick={() => close(note.id)}><Icon name="x" /></button>
    </div>
  );
}

export function Toasts() {
  return <div class="toasts" role="status">{shown.value.map((note) => <Note key={note.id} note={note} />)}</div>;
}
