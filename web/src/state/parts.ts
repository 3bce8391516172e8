/** Content blocks of the protocol as parts of messages and tool calls. */
import type { Part, ToolPart } from "../model";
import { list, number, object, own, present, text } from "./read";

export function partOf(block: unknown): Part {
  const found = object(block);
  const attachment = text(own(found)["attachment"]);
  switch (found["type"]) {
    case "text":
      if (typeof found["text"] === "string") return { kind: "text", text: found["text"] };
      break;
    case "image":
      return present<Extract<Part, { kind: "image" }>>({
        kind: "image",
        mimeType: text(found["mimeType"]) ?? "",
        data: text(found["data"]) ?? "",
        uri: text(found["uri"]),
        attachment,
      });
    case "audio":
      return present<Extract<Part, { kind: "audio" }>>({
        kind: "audio",
        mimeType: text(found["mimeType"]) ?? "",
        data: text(found["data"]) ?? "",
        attachment,
      });
    case "resource_link":
      return present<Extract<Part, { kind: "link" }>>({
        kind: "link",
        uri: text(found["uri"]) ?? "",
        name: text(found["name"]) ?? "",
        mimeType: text(found["mimeType"]),
        size: number(found["size"]),
      });
    case "resource": {
      const resource = object(found["resource"]);
      return present<Extract<Part, { kind: "resource" }>>({
        kind: "resource",
        uri: text(resource["uri"]) ?? "",
        text: text(resource["text"]),
        blob: text(resource["blob"]),
        mimeType: text(resource["mimeType"]),
        attachment,
      });
    }
  }
  return { kind: "unknown", value: block };
}

/** Whether a block is text and nothing more: such blocks that follow each other are one part. */
export function isPlain(block: unknown): boolean {
  const found = object(block);
  return found["type"] === "text" && !("annotations" in found) && !("_meta" in found);
}

/** Appends a block; plain text grows the last part if that is plain text too. Says whether it may grow further. */
export function append(parts: Part[], block: unknown, canGrow: boolean): boolean {
  const part = partOf(block);
  if (part.kind !== "text" || !isPlain(block)) {
    parts.push(part);
    return false;
  }
  if (part.text === "") return canGrow;
  const last = parts.at(-1);
  if (canGrow && last?.kind === "text") last.text += part.text;
  else parts.push(part);
  return true;
}

export function toolPartOf(content: unknown): ToolPart {
  const found = object(content);
  if (found["type"] === "diff" && typeof found["path"] === "string") {
    return {
      kind: "diff",
      path: found["path"],
      oldText: text(found["oldText"]) ?? null,
      newText: text(found["newText"]) ?? "",
    };
  }
  if (found["type"] === "terminal" && typeof found["terminalId"] === "string") {
    return { kind: "terminal", terminalId: found["terminalId"] };
  }
  if (found["type"] === "content") return { kind: "content", part: partOf(found["content"]) };
  return { kind: "content", part: { kind: "unknown", value: content } };
}

export function locationsOf(value: unknown): { path: string; line?: number }[] {
  return list(value).map((location) => {
    const found = object(location);
    return present<{ path: string; line?: number }>({ path: text(found["path"]) ?? "", line: number(found["line"]) });
  });
}
