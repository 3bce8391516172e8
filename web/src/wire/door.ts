/** The way in: a ticket for each socket, bought with the cookie and the page's half of the pairing. */
import { object, text, type Json } from "../state/read";

export const CLOSED = { ended: 4401, refused: 4403, behind: 4408, often: 4429, draining: 4503 } as const;

/** Why no ticket was given. */
export class NoTicket extends Error {
  readonly kind: "unpaired" | "refused" | "often" | "offline";
  readonly seconds: number;

  constructor(kind: NoTicket["kind"], seconds = 0) {
    super(`no ticket: ${kind}`);
    this.name = "NoTicket";
    this.kind = kind;
    this.seconds = seconds;
  }
}

/** Sends a request of the page to its own host; `half` is left out where there is none yet. */
export async function post(path: string, body: BodyInit, half: string | null, type = "application/json"): Promise<Response> {
  return await fetch(path, {
    method: "POST",
    body,
    headers: { "Content-Type": type, ...(half === null ? {} : { "X-Dragoman-Half": half }) },
    credentials: "same-origin",
    cache: "no-store",
    redirect: "error",
  });
}

/** Fetches something of this device's user from the page's own host. */
export async function get(path: string, half: string | null): Promise<Response> {
  return await fetch(path, {
    headers: half === null ? {} : { "X-Dragoman-Half": half },
    credentials: "same-origin",
    cache: "no-store",
    redirect: "error",
  });
}

export async function buyTicket(half: string): Promise<string> {
  let answer: Response;
  try {
    answer = await post("/ticket", "{}", half);
  } catch {
    throw new NoTicket("offline");
  }
  if (answer.status === 401) throw new NoTicket("unpaired");
  if (answer.status === 403) throw new NoTicket("refused");
  if (answer.status === 429) throw new NoTicket("often", Number(answer.headers.get("Retry-After") ?? "1"));
  if (!answer.ok) throw new NoTicket("offline");
  const ticket = text(object(await answer.json().catch(() => null))["ticket"]);
  if (ticket === undefined) throw new NoTicket("offline");
  return ticket;
}

/** Opens a socket of this page's own host. The address of a host is never taken from anywhere else. */
export function openSocket(ticket: string): WebSocket {
  const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/acp`;
  return new WebSocket(address, ["acp.v1", `acp.ticket.${ticket}`]);
}

export async function pair(code: string, name: string): Promise<{ half: string } | { message: string; status: number }> {
  const answer = await post("/pair", JSON.stringify({ code, name }), null);
  const found: Json = object(await answer.json().catch(() => null));
  const half = text(found["half"]);
  if (answer.ok && half !== undefined) return { half };
  return { message: text(found["error"]) ?? text(found["message"]) ?? "", status: answer.status };
}
