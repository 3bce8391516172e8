/** Reads values of JSON that a peer sent: what has the wrong type counts as missing, and nothing throws. */

export type Json = Record<string, unknown>;

export function object(value: unknown): Json {
  return typeof value === "object" && value !== null && !Array.isArray(value) ? (value as Json) : {};
}

export function list(value: unknown): unknown[] {
  return Array.isArray(value) ? value : [];
}

export function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

export function number(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) ? value : undefined;
}

/** Our own part of `_meta`. */
export function own(value: unknown): Json {
  return object(object(object(value)["_meta"])["dragoman"]);
}

/** A value without the members that are undefined, for types that forbid them. */
export function present<T extends object>(value: { [Name in keyof T]: T[Name] | undefined }): T {
  const found: Json = {};
  for (const [name, member] of Object.entries(value)) if (member !== undefined) found[name] = member;
  return found as T;
}
