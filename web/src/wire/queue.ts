/** Messages wait here until the next frame of the screen, so that many of them cost one paint. */

// A task above 50 ms is felt; what is left goes on in the next frame.
const BUDGET_MS = 10;
// The browser may give a page no frames although it is visible, behind another window.
const LATEST_MS = 200;

export class FrameQueue {
  readonly #take: (message: string) => void;
  readonly #paint: () => void;
  #messages: string[] = [];
  #at = 0;
  #frame = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(take: (message: string) => void, paint: () => void) {
    this.#take = take;
    this.#paint = paint;
  }

  push(message: string): void {
    this.#messages.push(message);
    if (document.visibilityState === "hidden") this.flush();
    else this.#schedule();
  }

  /** Applies everything now. */
  flush(): void {
    this.#run(Number.POSITIVE_INFINITY);
  }

  #schedule(): void {
    if (this.#frame !== 0) return;
    this.#frame = requestAnimationFrame(() => this.#run(BUDGET_MS));
    this.#timer = setTimeout(() => this.#run(BUDGET_MS), LATEST_MS);
  }

  #run(budget: number): void {
    cancelAnimationFrame(this.#frame);
    clearTimeout(this.#timer);
    this.#frame = 0;
    const end = performance.now() + budget;
    while (this.#at < this.#messages.length) {
      const message = this.#messages[this.#at] ?? "";
      this.#at += 1;
      this.#take(message);
      if (performance.now() > end) break;
    }
    if (this.#at >= this.#messages.length) {
      this.#messages = [];
      this.#at = 0;
    } else this.#schedule();
    this.#paint();
  }
}
