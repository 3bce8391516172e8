/** What is in a message or a tool call and is not text: pictures, sound, links, files. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { useApp } from "../app";
import { Icon } from "../frame/icon";
import { toastFailure } from "../frame/toasts";
import type { Part } from "../model";
import { Code } from "../render/Code";
import { isPicture, dataAddress, sizeOf } from "../render/pictures";
import { Plain } from "../render/Plain";
import { addressOf } from "../render/sanitise";
import { plain } from "../render/visible";
import { words } from "../words";
import { useFold } from "./context";
import { size } from "./spans";

export function PartView({ part }: { part: Part }) {
  switch (part.kind) {
    case "text":
      return <Plain text={part.text} />;
    case "image":
      return isPicture(part.mimeType) ? <Picture part={part} /> : <FileChip name={nameOf(part.uri) || part.mimeType} />;
    case "audio":
      return <Sound part={part} />;
    case "link":
      return <LinkChip uri={part.uri} name={part.name} bytes={part.size} />;
    case "resource":
      if (part.attachment !== undefined) return <AttachedFile id={part.attachment} name={nameOf(part.uri)} />;
      return part.text === undefined ? <FileChip name={nameOf(part.uri)} /> : <Resource uri={part.uri} text={part.text} />;
    default:
      return <FileChip name={words.thread.unknownPart} />;
  }
}

function nameOf(uri: string | undefined): string {
  if (uri === undefined) return "";
  const last = uri.replace(/^attachment:/, "").replace(/[?#].*$/, "").split("/").at(-1) ?? uri;
  try {
    return decodeURIComponent(last);
  } catch {
    return last;
  }
}

/** A file that was sent with a prompt: the host has its bytes. */
function AttachedFile({ id, name }: { id: string; name: string }) {
  const app = useApp();
  const save = (): void => {
    app.attachmentAddress(id).then((address) => {
      const link = document.createElement("a");
      link.href = address;
      link.download = plain(name);
      link.click();
    }, toastFailure);
  };
  return (
    <button type="button" class="filechip xs faint btn quiet" dir="auto" title={words.thread.download(plain(name))} onClick={save}>
      <Icon name="file" /><Plain text={name} care="exact" />
    </button>
  );
}

function Picture({ part }: { part: Extract<Part, { kind: "image" }> }) {
  const address = useAddress(part.attachment, () => dataAddress(part.mimeType, part.data));
  const place = useMemo(() => (part.data === "" ? null : sizeOf(part.data)), [part.data]);
  const [isBroken, setBroken] = useState(false);
  const name = plain(nameOf(part.uri)) || words.thread.picture;
  if (isBroken || address === null) return <FileChip name={name} />;
  return (
    <figure class={`picture${place === null ? " unsized" : ""}`}>
      {address !== undefined && (
        <img src={address} alt={name} {...(place === null ? {} : { width: place.width, height: place.height })} decoding="async" onError={() => setBroken(true)} />
      )}
    </figure>
  );
}

function Sound({ part }: { part: Extract<Part, { kind: "audio" }> }) {
  const address = useAddress(part.attachment, () => {
    if (!/^audio\/[\w.+-]+$/.test(part.mimeType)) return null;
    try {
      return URL.createObjectURL(new Blob([Uint8Array.from(atob(part.data), (c) => c.charCodeAt(0))], { type: part.mimeType }));
    } catch {
      return null;
    }
  });
  if (address === null) return <FileChip name={part.mimeType} />;
  return address === undefined ? null : <audio controls src={address} aria-label={words.thread.sound} />;
}

// The address of an attachment comes from the host; undefined until it is there, null if there is none.
function useAddress(attachment: string | undefined, own: () => string | null): string | null | undefined {
  const app = useApp();
  const [address, setAddress] = useState<string | null | undefined>(undefined);
  useEffect(() => {
    let isGone = false;
    if (attachment === undefined) setAddress(own());
    else
      app.attachmentAddress(attachment).then(
        (found) => isGone || setAddress(found),
        () => isGone || setAddress(null),
      );
    return () => {
      isGone = true;
    };
  }, [attachment]);
  return address;
}

function FileChip({ name, bytes }: { name: string; bytes?: number | undefined }) {
  return (
    <div class="filechip xs faint" dir="auto">
      <Icon name="file" /><Plain text={name} care="exact" />{bytes !== undefined && ` · ${size(bytes)}`}
    </div>
  );
}

function LinkChip({ uri, name, bytes }: { uri: string; name: string; bytes?: number | undefined }) {
  const address = addressOf(uri);
  if (address === null) return <FileChip name={name || uri} bytes={bytes} />;
  return (
    <div class="filechip xs faint" dir="auto">
      <Icon name="globe" />
      <a class="link" href={address.href} target="_blank" rel="noopener noreferrer"><Plain text={name || uri} /></a> ({address.host})
    </div>
  );
}

function Resource({ uri, text }: { uri: string; text: string }) {
  const [isOpen, press] = useFold(`${uri}/${text.length}`, () => false);
  return (
    <>
      <button type="button" class="fold" aria-expanded={isOpen} onClick={press}>
        <Icon name={isOpen ? "down" : "right"} /><Icon name="file" /><Plain text={nameOf(uri)} care="exact" />
      </button>
      {isOpen && <Code text={text} lang="" isOpen={false} />}
    </>
  );
}
