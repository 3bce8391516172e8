/** Lengths of time and sizes as words. */
import { useEffect, useState } from "preact/hooks";

/** Return a length of time: `3.8 s`, `48 s`, `2m 14s`, `1h 5m`. */
export function spell(seconds: number): string {
  if (seconds < 10) return `${Math.round(seconds * 10) / 10} s`;
  if (seconds < 60) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3_600) return `${Math.floor(whole / 60)}m ${whole % 60}s`;
  return `${Math.floor(whole / 3_600)}h ${Math.floor((whole % 3_600) / 60)}m`;
}

/** Return a size: `184 kB`. */
export function size(bytes: number): string {
  if (bytes < 1_000) return `${bytes} B`;
  if (bytes < 1_000_000) return `${Math.round(bytes / 1_000)} kB`;
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

/** Return the seconds since a time, drawn again each second while it is wanted. */
export function useSeconds(since: number | undefined, isWanted: boolean): number {
  const [seconds, setSeconds] = useState(0);
  useEffect(() => {
    if (since === undefined || !isWanted) return;
    const look = (): void => {
      if (document.visibilityState === "visible") setSeconds(Math.max(0, (Date.now() - since) / 1_000));
    };
    look();
    const timer = window.setInterval(look, 1_000);
    return () => window.clearInterval(timer);
  }, [since, isWanted]);
  return seconds;
}
