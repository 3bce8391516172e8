/** Times as words. `now` moves every five seconds while the page is in sight. */
import { signal, type ReadonlySignal } from "@preact/signals";

const moving = signal(Date.now());
export const now: ReadonlySignal<number> = moving;

function look(): void {
  if (document.visibilityState === "visible") moving.value = Date.now();
}
setInterval(look, 5000);
document.addEventListener("visibilitychange", look);

/** Returns how long ago a time was, in one unit: `48s`, `3m`, `2h`, `5d`. */
export function age(at: number): string {
  const seconds = Math.max(0, Math.round((now.value - at) / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86_400)}d`;
}

/** Returns the time of day, such as `10:02`; with its day if it was not today. */
export function clock(at: number): string {
  const time = new Date(at);
  const isToday = time.toDateString() === new Date().toDateString();
  const hours = time.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  return isToday ? hours : `${time.toLocaleDateString()} ${hours}`;
}

/** Returns an amount of money, such as `$0.31`. What an agent says may be any number, and any text for a currency. */
export function money(cost: { amount: number; currency: string }): string {
  const { amount } = cost;
  const shown = amount > 0 && amount < 0.01 ? "<0.01" : Math.abs(amount) < 1e6 ? amount.toFixed(2) : amount.toExponential(1);
  const currency = cost.currency.replace(/[^\p{L}\p{Sc}]/gu, "").slice(0, 4);
  return currency === "USD" || currency === "" ? `$${shown}` : `${shown} ${currency}`;
}
