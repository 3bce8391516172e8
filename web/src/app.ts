/** What the screens may do. The store makes one of these; components get it by `useApp()` and know nothing else. */
import { createContext } from "preact";
import { useContext } from "preact/hooks";
import type { ReadonlySignal, Signal } from "@preact/signals";
import type { Answered, Attached, Host, Line, Outcome, Question, QuestionEnd, Row, Thread } from "./model";
import type { Callable } from "./wire/rpc";

export interface NewSession {
  agent: string;
  cwd: string;
  worktree?: string;
  model?: string;
  mode?: string;
  prompt?: string;
}

export interface AgentFacts {
  name: string;
  title: string;
  version?: string;
  state: "ready" | "login" | "missing" | "unknown";
  how?: string;
  isDefault?: boolean;
}

export interface Device {
  id: string;
  name: string;
  agent?: string;
  /** `token` for one that was made on the command line. */
  kind?: string;
  rights: string[];
  createdAt: number;
  seenAt?: number;
  expiresAt?: number;
  isThis: boolean;
}

/** One answer of a search. */
export interface Found {
  hits: { sessionId: string; seq: number; around: string; at?: number }[];
  before?: string | number;
}

export interface Settings {
  theme: "auto" | "light" | "dark";
  letters: boolean;
  announce: "off" | "turns" | "messages";
}

export interface App {
  line: ReadonlySignal<Line>;
  host: ReadonlySignal<Host | null>;
  /** All sessions that are watched; changes at most once a frame. */
  rows: ReadonlySignal<readonly Row[]>;
  /** Whether the list has come once, and whether the host has more of it. */
  hasRows: ReadonlySignal<boolean>;
  hasMoreRows: ReadonlySignal<boolean>;
  /** Every open question, oldest first. */
  questions: ReadonlySignal<readonly Question[]>;
  /** How many are open while the page is hidden, and nothing of it is drawn; null while it is shown. */
  hiddenCount: ReadonlySignal<number | null>;
  /** How questions ended that are no longer open, by their id; kept for a while. */
  ends: ReadonlySignal<ReadonlyMap<string, QuestionEnd>>;
  settings: Signal<Settings>;
  /** How far each session was read on this device: its row is new if its `head` is above. */
  seen: ReadonlySignal<ReadonlyMap<string, number>>;
  /** The last sentence for the polite live region. */
  said: ReadonlySignal<string>;

  pair(code: string, name: string): Promise<{ ok: true } | { ok: false; message: string }>;
  unpair(): Promise<void>;
  reconnect(): void;
  moreRows(): Promise<void>;

  open(sessionId: string): Thread;
  close(sessionId: string): void;
  older(sessionId: string): Promise<void>;
  create(wanted: NewSession): Promise<string>;
  prompt(sessionId: string, text: string, how: "send" | "steer"): Promise<void>;
  retry(sessionId: string, promptId: string): Promise<void>;
  discard(sessionId: string, promptId: string): Promise<void>;
  stop(sessionId: string): Promise<void>;
  editWaiting(sessionId: string, promptId: string, text: string): Promise<void>;
  removeWaiting(sessionId: string, promptId: string): Promise<void>;
  /** Takes a prompt of this page back: gives its text, and puts its attachments into the input again. */
  takeBack(sessionId: string, promptId: string): Promise<string>;
  setMode(sessionId: string, mode: string): Promise<void>;
  setOption(sessionId: string, option: string, value: string | boolean): Promise<void>;
  setTitle(sessionId: string, title: string): Promise<void>;
  archive(sessionId: string, isArchived: boolean): Promise<void>;
  restartAgent(sessionId: string): Promise<void>;
  /** The places where a text occurs, the last first; `before` is where to go on, if the host has not seen all. */
  search(text: string, sessionId?: string, before?: Found["before"]): Promise<Found>;
  /** Loads the history around a place. */
  goTo(sessionId: string, seq: number): Promise<void>;

  answer(question: Question, outcome: Outcome | { action: string; content?: unknown }): Promise<Answered>;

  attach(sessionId: string, file: File): Attached;
  detach(sessionId: string, attached: Attached): void;
  attached(sessionId: string): ReadonlySignal<readonly Attached[]>;
  /** An address of this page for what was attached, of the type that the host found. */
  attachmentAddress(id: string): Promise<string>;
  /** The whole text of a prompt that this page sent; rows have its beginning. */
  sentText(promptId: string): string | undefined;
  /** The text in the input of a session, kept on this device; "" is the draft of a new session. */
  draft(sessionId: string): Signal<string>;

  agents(): Promise<AgentFacts[]>;
  folders(path?: string): Promise<{ path: string; name: string; children?: boolean }[]>;
  files(sessionId: string, query: string): Promise<string[]>;
  devices(): Promise<Device[]>;
  deviceCode(rights: string[]): Promise<{ code: string; seconds: number }>;
  removeDevice(id: string): Promise<void>;
  /** A method of the host that has no function here yet. */
  call<T>(method: Callable, params: unknown): Promise<T>;
}

export const AppContext = createContext<App | null>(null);

export function useApp(): App {
  const app = useContext(AppContext);
  if (app === null) throw new Error("there is no app around this component");
  return app;
}
