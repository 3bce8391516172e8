/** The cards in the document: which of them a key is for, and where the focus goes after an answer. */

export interface Sighted {
  element: () => HTMLElement | null;
  heading: () => HTMLElement | null;
  /** Presses the answer with this number. */
  press: (number: number, event: KeyboardEvent) => void;
}

const cards = new Set<Sighted>();

export function addCard(card: Sighted): () => void {
  cards.add(card);
  return () => void cards.delete(card);
}

function inOrder(): Sighted[] {
  return [...cards].filter((card) => card.element()?.isConnected).sort((one, other) => {
    const relation = (one.element() as HTMLElement).compareDocumentPosition(other.element() as HTMLElement);
    return relation & Node.DOCUMENT_POSITION_FOLLOWING ? -1 : 1;
  });
}

/** Returns the card that a key is for: the one with the focus in it or in its row, else the only one in sight. */
export function cardInSight(): Sighted | null {
  const dialog = document.querySelector("dialog[open]");
  const found = inOrder().filter((card) => dialog === null || dialog.contains(card.element()));
  const focused = found.find((card) => {
    const around = card.element()?.closest("[data-row]") ?? card.element();
    return around?.contains(document.activeElement) ?? false;
  });
  if (focused !== undefined) return focused;
  const seen = found.filter((card) => {
    const place = card.element()?.getBoundingClientRect();
    return place !== undefined && place.height > 0 && place.bottom > 0 && place.top < innerHeight;
  });
  return seen.length === 1 ? (seen[0] ?? null) : null;
}

/** Moves the focus to the next question, else to the input or the heading of the screen. */
export function focusAfter(card: HTMLElement | null): void {
  const next = inOrder().find((other) => other.element() !== card && card !== null && (card.compareDocumentPosition(other.element() as HTMLElement) & Node.DOCUMENT_POSITION_FOLLOWING) !== 0) ?? inOrder().find((other) => other.element() !== card);
  const target = next?.heading() ?? document.querySelector<HTMLElement>("main textarea, textarea[data-prompt]") ?? document.querySelector<HTMLElement>("main h1");
  if (target === null || target === undefined) return;
  if (!target.matches("textarea, input, button, a, [tabindex]")) target.tabIndex = -1;
  target.focus();
}
