/** A modal part: the browser's own dialog, which keeps the focus inside and gives it back. */
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";

interface Props {
  label: string;
  /** The look: `box`, `drawer`, `sheetp` or `palette`. */
  look: string;
  onClose: () => void;
  children: ComponentChildren;
}

export function Dialog({ label, look, onClose, children }: Props) {
  const element = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    const dialog = element.current;
    if (dialog === null) return;
    const before = document.activeElement;
    dialog.showModal();
    // The first control is never chosen by itself: it may be the one that allows something.
    if (!(document.activeElement instanceof HTMLInputElement)) dialog.focus();
    return () => {
      dialog.close();
      if (before instanceof HTMLElement && before.isConnected) before.focus();
    };
  }, []);
  // A press on what is behind closes, if it began there: a drag that ends outside does not.
  const pressed = useRef(false);
  return (
    <dialog
      ref={element}
      class={look}
      tabIndex={-1}
      aria-label={label}
      onCancel={(event) => { event.preventDefault(); onClose(); }}
      onPointerDown={(event) => { pressed.current = event.target === element.current; }}
      onClick={(event) => { if (pressed.current && event.target === element.current) onClose(); }}
    >
      <div class="inside">{children}</div>
    </dialog>
  );
}

/** Whether a modal part is open: keys of the page rest then. */
export function isModalOpen(): boolean {
  return document.querySelector("dialog[open]") !== null;
}
