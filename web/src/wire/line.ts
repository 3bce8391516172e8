/**
 * The line to the host: opened, watched, and opened again.
 *
 * A page sleeps, a phone changes its network, a host restarts. Whatever happens, the line comes back by itself: after
 * 0.25 to 10 s with jitter, and at once when the page is shown or the network is there again.
 */
import { signal, type ReadonlySignal } from "@preact/signals";
import type { Line as LineState } from "../model";
import type { Json } from "../state/read";
import { buyTicket, CLOSED, NoTicket, openSocket } from "./door";
import { FrameQueue } from "./queue";
import { LineClosed, Rpc } from "./rpc";

const SHORTEST_MS = 250;
const LONGEST_MS = 10_000;
const STEADY_MS = 1_000;
const OPEN_MS = 15_000;
const PING_MS = 25_000;
const PONG_MS = 8_000;
const WAKE_MS = 3_000;

export interface LineUser {
  /** Introduces the page on a new line. It counts as connected when this is done. */
  greet(rpc: Rpc): Promise<void>;
  onNotification(method: string, params: Json): void;
  onRequest(rpc: Rpc, id: string | number, method: string, params: Json): void;
  onLost(): void;
  /** Called after the messages of a frame were applied. */
  paint(): void;
  /** The pairing is over. */
  onUnpaired(): Promise<void>;
}

export class Line {
  readonly #user: LineUser;
  readonly #state = signal<LineState>({ state: "connecting" });
  #half: string | null = null;
  #rpc: Rpc | null = null;
  #socket: WebSocket | null = null;
  #attempts = 0;
  #isRunning = false;
  #wake: (() => void) | null = null;
  #heard = 0;
  #pinging = false;

  constructor(user: LineUser) {
    this.#user = user;
    const wake = (): void => this.wake();
    document.addEventListener("visibilitychange", () => {
      if (document.visibilityState === "visible") wake();
    });
    addEventListener("online", wake);
    addEventListener("pageshow", wake);
    addEventListener("offline", () => this.#lookOffline());
    setInterval(() => this.#ping(PONG_MS, PING_MS), PING_MS);
  }

  get state(): ReadonlySignal<LineState> {
    return this.#state;
  }

  /** The line while it is there. */
  get rpc(): Rpc | null {
    return this.#state.value.state === "connected" ? this.#rpc : null;
  }

  start(half: string | null): void {
    this.#half = half;
    if (half === null) {
      this.#state.value = { state: "unpaired", why: "new" };
      return;
    }
    if (this.#state.value.state === "unpaired") this.#state.value = { state: "connecting" };
    if (!this.#isRunning) void this.#run();
    else this.wake();
  }

  /** Ends the line, and stays without one. */
  stop(why: "new" | "removed"): void {
    this.#half = null;
    this.#state.value = { state: "unpaired", why };
    this.#socket?.close();
    this.#wake?.();
  }

  /** Connects now if the line is down; looks whether it is alive if it seems to be up. */
  wake(): void {
    this.#attempts = 0;
    this.#wake?.();
    this.#ping(WAKE_MS, 0);
  }

  async #run(): Promise<void> {
    this.#isRunning = true;
    while (this.#half !== null) {
      const begun = performance.now();
      let wait = 0;
      try {
        const code = await this.#connect(this.#half);
        if (code === CLOSED.ended) await this.#unpaired();
        else if (code === CLOSED.draining) this.#state.value = { state: "draining" };
        else if (code === CLOSED.often || code === CLOSED.refused) wait = LONGEST_MS;
      } catch (error) {
        if (error instanceof NoTicket) {
          if (error.kind === "unpaired") await this.#unpaired();
          if (error.kind === "offline") this.#broken(true);
          if (error.kind === "often") wait = Math.min(LONGEST_MS, error.seconds * 1000);
          if (error.kind === "refused") wait = LONGEST_MS;
        }
      }
      if (this.#half === null) break;
      if (performance.now() - begun > STEADY_MS && this.#heard > begun) this.#attempts = 0;
      this.#broken(navigator.onLine === false);
      await this.#pause(Math.max(wait, Math.min(LONGEST_MS, SHORTEST_MS * 2 ** this.#attempts)));
      this.#attempts += 1;
    }
    this.#isRunning = false;
  }

  /** Opens a socket and waits for its end; gives the code of the end. */
  async #connect(half: string): Promise<number> {
    const socket = openSocket(await buyTicket(half));
    const rpc = new Rpc((message) => {
      if (socket.readyState === WebSocket.OPEN) socket.send(message);
    }, {
      onNotification: (method, params) => this.#user.onNotification(method, params),
      onRequest: (id, method, params) => this.#user.onRequest(rpc, id, method, params),
    });
    const queue = new FrameQueue((message) => rpc.take(message), () => this.#user.paint());
    this.#socket = socket;
    return await new Promise<number>((resolve) => {
      const late = setTimeout(() => socket.close(), OPEN_MS);
      let isOver = false;
      const end = (code: number): void => {
        if (isOver) return;
        isOver = true;
        clearTimeout(late);
        queue.flush();
        rpc.close();
        const wasConnected = this.#rpc === rpc;
        if (this.#socket === socket) this.#socket = null;
        if (wasConnected) {
          this.#rpc = null;
          this.#broken(navigator.onLine === false);
          this.#user.onLost();
        }
        resolve(code);
      };
      socket.onmessage = (event) => {
        if (isOver) return;
        this.#heard = performance.now();
        if (typeof event.data === "string") queue.push(event.data);
      };
      socket.onclose = (event) => end(event.code);
      socket.addEventListener("dead", () => end(0));
      socket.onopen = () => {
        void this.#user.greet(rpc).then(
          () => {
            clearTimeout(late);
            if (isOver) return;
            this.#rpc = rpc;
            this.#state.value = { state: "connected" };
          },
          () => socket.close(),
        );
      };
    });
  }

  async #unpaired(): Promise<void> {
    this.#half = null;
    await this.#user.onUnpaired();
    // The user may have ended the pairing himself in the meantime.
    if (this.#state.value.state !== "unpaired") this.#state.value = { state: "unpaired", why: "removed" };
  }

  #broken(isOffline: boolean): void {
    const now = this.#state.value;
    if (now.state === "draining" || now.state === "unpaired") return;
    const since = "since" in now ? now.since : Date.now();
    const state = isOffline ? "offline" : "reconnecting";
    if (now.state !== state) this.#state.value = { state, since };
  }

  #lookOffline(): void {
    if (this.#state.value.state !== "connected") this.#broken(true);
    else this.#ping(WAKE_MS, 0);
  }

  /** Waits; a page that is shown, or a network that came back, ends it. */
  async #pause(longest: number): Promise<void> {
    const ms = Math.max(SHORTEST_MS, longest * (0.5 + Math.random() / 2));
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#wake = () => {
        clearTimeout(timer);
        resolve();
      };
    });
    this.#wake = null;
  }

  /** Asks the host for a sign of life if nothing was heard for a while; a line that gives none is given up. */
  #ping(patience: number, quiet: number): void {
    const [rpc, socket] = [this.rpc, this.#socket];
    if (rpc === null || socket === null || this.#pinging || document.visibilityState === "hidden") return;
    if (performance.now() - this.#heard < quiet) return;
    this.#pinging = true;
    const asked = performance.now();
    const giveUp = setTimeout(() => {
      if (this.#heard >= asked) return;
      // A socket that is dead may take minutes to close: it is left to itself.
      socket.dispatchEvent(new Event("dead"));
      socket.close();
    }, patience);
    const done = (): void => {
      clearTimeout(giveUp);
      this.#pinging = false;
    };
    rpc.request("_dragoman/presence", { visible: true }).then(done, (error: unknown) => {
      if (!(error instanceof LineClosed)) done();
      else this.#pinging = false;
    });
  }
}
