/** What the rows of a conversation share. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { Thread } from "../model";
import type { Cells } from "./cells";
import type { Viewport } from "./viewport";

export interface Talk {
  sessionId: string;
  agent: string;
  thread: Thread;
  cells: Cells;
  viewport: Viewport;
}

export const TalkContext = createContext<Talk | null>(null);

export function useTalk(): Talk {
  const talk = useContext(TalkContext);
  if (talk === null) throw new Error("there is no conversation around this component");
  return talk;
}

/** Unfolds or folds, and keeps what was pressed at its place. */
export function useFold(key: string, first: () => boolean): [boolean, (event: Event) => void] {
  const talk = useTalk();
  const isOpen = talk.cells.isOpen(key, first);
  const press = (event: Event): void => {
    if (event.currentTarget instanceof Element) talk.viewport.hold(event.currentTarget);
    isOpen.value = !isOpen.value;
  };
  return [isOpen.value, press];
}
