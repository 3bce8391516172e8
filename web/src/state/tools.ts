/** The tool calls of a session, by id. */
import type { ToolItem } from "../model";
import { locationsOf, toolPartOf } from "./parts";
import { list, number, object, text, type Json } from "./read";

const FINISHED = new Set(["completed", "failed", "cancelled"]);

/** A call with what is needed to fold it and is not shown. */
export interface Call {
  item: ToolItem;
  /** The turn in which it was first reported. */
  turn: number | null;
  /** Grows from call to call. */
  order: number;
  /** As the agent reported it. */
  reported: string;
  isCancelled: boolean;
  /** It began with an announcement; else its beginning is not known. */
  isAnnounced: boolean;
  members: Set<string>;
}

export function isRunning(call: Call): boolean {
  return !call.isCancelled && !FINISHED.has(call.reported);
}

export function isFinished(status: unknown): boolean {
  return typeof status === "string" && FINISHED.has(status);
}

export function newCall(id: string, key: string, turn: number | null, order: number, isAnnounced: boolean, seq: number): Call {
  const item: ToolItem = {
    kind: "tool",
    key,
    id,
    title: "",
    toolKind: "other",
    status: "pending",
    content: [],
    locations: [],
    children: [],
    seq,
  };
  return { item, turn, order, reported: "pending", isCancelled: false, isAnnounced, members: new Set() };
}

/** Takes the members that an update has; null is no value in this version, except for what is any JSON. */
export function change(call: Call, update: Json, at: number | undefined): void {
  const { item, members } = call;
  const title = text(update["title"]);
  if (title) {
    item.title = title;
    members.add("title");
  }
  const kind = text(update["kind"]);
  if (kind) {
    item.toolKind = kind;
    members.add("kind");
  }
  if (Array.isArray(update["content"])) {
    item.content = list(update["content"]).map(toolPartOf);
    members.add("content");
  }
  if (Array.isArray(update["locations"])) {
    item.locations = locationsOf(update["locations"]);
    members.add("locations");
  }
  if ("rawInput" in update) {
    item.rawInput = update["rawInput"];
    members.add("rawInput");
  }
  if ("rawOutput" in update) {
    item.rawOutput = update["rawOutput"];
    members.add("rawOutput");
  }
  const status = text(update["status"]);
  if (status) {
    if (isFinished(status) && !isFinished(call.reported) && at !== undefined) item.endedAt = at;
    call.reported = status;
    members.add("status");
  }
  const seconds = number(object(object(update["_meta"])["dragoman"])["seconds"]);
  if (seconds !== undefined) item.seconds = seconds;
  show(call);
}

/** Sets the status that is shown: a cancelled turn has ended what it began, whatever was reported last. */
export function show(call: Call): void {
  call.item.status = (call.isCancelled ? "cancelled" : call.reported) as ToolItem["status"];
}

/** Fills in what an earlier part of the history says about a call whose beginning was not known. */
export function complete(call: Call, earlier: Call): void {
  const { item, members } = call;
  const before = earlier.item;
  if (!members.has("title")) item.title = before.title;
  if (!members.has("kind")) item.toolKind = before.toolKind;
  if (!members.has("content")) item.content = before.content;
  if (!members.has("locations")) item.locations = before.locations;
  if (!members.has("rawInput") && "rawInput" in before) item.rawInput = before.rawInput;
  if (!members.has("rawOutput") && "rawOutput" in before) item.rawOutput = before.rawOutput;
  if (!members.has("status")) call.reported = earlier.reported;
  if (item.parent === undefined && before.parent !== undefined) item.parent = before.parent;
  item.children = [...before.children, ...item.children];
  item.seq = before.seq;
  if (before.at !== undefined) item.at = before.at;
  for (const name of earlier.members) members.add(name);
  call.isAnnounced = earlier.isAnnounced;
  show(call);
}
