/** Limits of a provider that an agent reports with its usage. What is not known is left out, never zero. */
import type { Quota } from "../model";
import { number, present, text, type Json } from "./read";

/** Reads what claude's agent reports in `_claude/rateLimit`; null if nothing of it is worth showing. */
export function readQuota(found: Json): Quota | null {
  const used = number(found["utilization"]);
  const isUsedUp = found["status"] === "rejected";
  const isNearlyUsedUp = found["status"] === "allowed_warning";
  if (used === undefined && !isUsedUp && !isNearlyUsedUp) return null;
  const at = number(found["resetsAt"]);
  return present<Quota>({
    name: text(found["rateLimitType"])?.replaceAll("_", " "),
    // A part of one, or percent.
    percent: used === undefined || used < 0 ? undefined : Math.min(100, Math.round(used <= 1 ? used * 100 : used)),
    isUsedUp,
    isNearlyUsedUp,
    // Seconds, or milliseconds.
    resetsAt: at === undefined || at <= 0 ? undefined : at < 1e11 ? at * 1000 : at,
  });
}
