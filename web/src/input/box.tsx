/** The input: text with completion, attachments, pickers, meters, and what sends or stops. */
import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import { useApp } from "../app";
import { Icon } from "../frame/icon";
import { useKeys } from "../frame/keys";
import { toastFailure } from "../frame/toasts";
import { isPhone } from "../frame/width";
import type { Attached, MessageItem, Row } from "../model";
import { Plain } from "../render/Plain";
import { useTalk } from "../thread/context";
import { textOf } from "../thread/message";
import { size } from "../thread/spans";
import { words } from "../words";
import { commandsFor, filesFor, wantedAt, type Offer, type Wanted } from "./completion";
import { Meters } from "./meters";
import { nextMode, Pickers } from "./pickers";

export function Box({ row }: { row: Row | undefined }) {
  const app = useApp();
  const { sessionId, thread, agent } = useTalk();
  const draft = app.draft(sessionId);
  const text = draft.value;
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const [isOver, setOver] = useState(false);
  const completion = useCompletion(field);
  const attached = app.attached(sessionId).value;
  const turn = thread.turn.value;
  const isRunning = turn !== null;
  const takes = thread.input.value;
  const canSend = (text.trim() !== "" || attached.some((one) => one.state === "ready")) && !attached.some((one) => one.state === "uploading");
  useLayoutEffect(() => grow(field.current), [text]);

  const send = (how: "send" | "steer"): void => {
    if (!canSend) return;
    const wanted = draft.peek();
    draft.value = "";
    app.prompt(sessionId, wanted.trim(), how).catch((error: unknown) => {
      // It is not lost: what could not even be kept goes back.
      if (draft.peek() === "") draft.value = wanted;
      toastFailure(error);
    });
    field.current?.focus();
  };
  const giveBack = (whole: string): void => {
    draft.value = [whole, draft.peek()].filter(Boolean).join("\n\n");
  };
  const takeBack = (): boolean => {
    const unsent = thread.unsent.peek().at(-1);
    if (unsent !== undefined) {
      app.takeBack(sessionId, unsent.promptId).then(giveBack, toastFailure);
      return true;
    }
    const own = thread.waiting.peek().filter((prompt) => app.sentText(prompt.promptId) !== undefined);
    const last = own.at(-1);
    if (last !== undefined) {
      app.takeBack(sessionId, last.promptId).then(giveBack, toastFailure);
      return true;
    }
    const sent = thread.items.peek().findLast((live) => live.item.kind === "message" && live.item.role === "user");
    if (sent === undefined) return false;
    draft.value = textOf(sent.item as MessageItem);
    return true;
  };
  // A prompt that waits must not run because another one was stopped: it goes back into the input first.
  const stop = async (): Promise<void> => {
    const waiting = thread.waiting.peek().filter((prompt) => app.sentText(prompt.promptId) !== undefined);
    const own = [...waiting, ...thread.unsent.peek().filter((prompt) => prompt.state === "sending")];
    const texts: string[] = [];
    for (const prompt of own) {
      await app.takeBack(sessionId, prompt.promptId).then((whole) => texts.push(whole), () => undefined);
    }
    if (texts.length > 0) draft.value = [...texts, draft.peek()].filter(Boolean).join("\n\n");
    await app.stop(sessionId);
  };
  const pressStop = (): void => void stop().catch(toastFailure);
  useKeys({ Escape: () => (isRunning ? pressStop() : false) });

  const onKey = (event: KeyboardEvent): void => {
    if (event.isComposing) return;
    if (completion.onKey(event)) return;
    const isMod = event.ctrlKey || event.metaKey;
    if (event.key === "Enter" && isMod) send(isRunning && takes.steer ? "steer" : "send");
    else if (event.key === "Enter" && !event.shiftKey && !isPhone.value) send("send");
    else if (event.key === "ArrowUp" && text === "" && takeBack()) {
      // The text is in the input now.
    } else if (event.key === "Tab" && event.shiftKey && nextMode(thread) !== null) {
      const [kind, id, value] = nextMode(thread)?.() ?? ["mode", "", ""];
      void (kind === "mode" ? app.setMode(sessionId, value) : app.setOption(sessionId, id, value)).catch(toastFailure);
    } else return;
    event.preventDefault();
  };
  const add = (files: Iterable<File>): void => {
    for (const file of files) app.attach(sessionId, file);
  };
  const onPaste = (event: ClipboardEvent): void => {
    const files = [...(event.clipboardData?.files ?? [])];
    if (files.length === 0) return;
    event.preventDefault();
    add(files);
  };
  const placeholder = isPhone.value ? words.input.message(agent) : isRunning ? words.input.messageLater(agent) : words.input.message(agent);
  const textField = (
    <div class="textin">
      <textarea
        ref={field}
        class={isPhone.value ? "in" : "text"}
        value={text}
        rows={1}
        dir="auto"
        placeholder={placeholder}
        aria-label={placeholder}
        aria-autocomplete="list"
        aria-controls={completion.isOpen ? "completions" : undefined}
        aria-activedescendant={completion.isOpen ? `completion-${completion.at}` : undefined}
        onInput={(event) => {
          draft.value = event.currentTarget.value;
          completion.look();
        }}
        onSelect={completion.look}
        onBlur={completion.close}
        onKeyDown={onKey}
        onPaste={onPaste}
      />
      {completion.isOpen && <Offers completion={completion} />}
    </div>
  );
  const files = (
    <input ref={picker} type="file" multiple hidden tabIndex={-1} aria-hidden="true" onChange={(event) => { add([...(event.currentTarget.files ?? [])]); event.currentTarget.value = ""; }} />
  );
  const drop = {
    onDragOver: (event: DragEvent): void => {
      if (!event.dataTransfer?.types.includes("Files")) return;
      event.preventDefault();
      setOver(true);
    },
    onDragLeave: (): void => setOver(false),
    onDrop: (event: DragEvent): void => {
      event.preventDefault();
      setOver(false);
      add([...(event.dataTransfer?.files ?? [])]);
    },
  };
  const attach = (look: string) => (
    <button type="button" class={look} aria-label={words.input.attach} onClick={() => picker.current?.click()}><Icon name="clip" /></button>
  );
  const chips = attached.length > 0 && <div class="att">{attached.map((one, at) => <Chip key={at} one={one} refusal={refusalOf(one, takes)} onRemove={() => app.detach(sessionId, one)} />)}</div>;
  if (isPhone.value) {
    return (
      <div {...drop}>
        {chips}
        <div class="foot phonefoot">{isRunning && takes.steer && <button type="button" class="pick" disabled={!canSend} onClick={() => send("steer")}><Icon name="steer" />{words.input.steer}</button>}{isRunning && <button type="button" class="pick" onClick={pressStop}><Icon name="stop" />{words.input.stop}</button>}<Pickers thread={thread} /></div>
        <div class="entry">
          {attach("tap")}{files}
          {textField}
          <button type="button" class="tap send" aria-label={isRunning ? words.input.queue : words.input.send} aria-disabled={!canSend} onClick={() => send("send")}><Icon name="up" /></button>
        </div>
      </div>
    );
  }
  return (
    <div class={`box${isOver ? " over" : ""}`} data-session={row?.sessionId} {...drop}>
      {chips}
      {textField}
      <div class="foot">
        {attach("btn quiet icon")}{files}
        <Pickers thread={thread} />
        <span class="grow" />
        <Meters thread={thread} />
        {isRunning && takes.steer && <button type="button" class="btn" disabled={!canSend} onClick={() => send("steer")}><Icon name="steer" />{words.input.steer}</button>}
        {isRunning && <button type="button" class="btn" onClick={pressStop}><Icon name="stop" />{words.input.stop}</button>}
        <button type="button" class="btn solid icon" aria-label={isRunning ? words.input.queue : words.input.send} aria-disabled={!canSend} onClick={() => send("send")}><Icon name="up" /></button>
      </div>
    </div>
  );
}

/** Why the agent cannot take a file; empty if it can. */
function refusalOf(one: Attached, takes: { image: boolean; audio: boolean }): string {
  if (one.mimeType.startsWith("image/") && !takes.image) return words.input.notTaken;
  return one.mimeType.startsWith("audio/") && !takes.audio ? words.input.noSound : "";
}

function Chip({ one, refusal, onRemove }: { one: Attached; refusal: string; onRemove: () => void }) {
  const isBad = one.state === "failed" || one.state === "refused" || refusal !== "";
  const said = one.state === "uploading" ? words.input.uploading : isBad ? (one.problem ?? refusal) : size(one.bytes);
  return (
    <span class={`chip${isBad ? " bad" : ""}`}>
      <Icon name={one.mimeType.startsWith("image/") ? "image" : "file"} />
      <span class="cut" dir="auto"><Plain text={one.name} care="exact" /></span>
      <span class={isBad ? "" : "faint"}>{said}</span>
      <button type="button" class="off" aria-label={words.input.detach(one.name)} onClick={onRemove}><Icon name="x" /></button>
    </span>
  );
}

/** The field is as high as its text; where the browser does this itself, nothing is done. */
function grow(field: HTMLTextAreaElement | null): void {
  if (field === null || CSS.supports("field-sizing", "content")) return;
  field.style.blockSize = "auto";
  field.style.blockSize = `${Math.min(field.scrollHeight, 240)}px`;
}

interface Completion {
  isOpen: boolean;
  at: number;
  offers: readonly Offer[];
  look: () => void;
  close: () => void;
  choose: (offer: Offer) => void;
  onKey: (event: KeyboardEvent) => boolean;
}

function useCompletion(field: { current: HTMLTextAreaElement | null }): Completion {
  const app = useApp();
  const { sessionId, thread } = useTalk();
  const [wanted, setWanted] = useState<Wanted | null>(null);
  const [files, setFiles] = useState<readonly string[]>([]);
  const [at, setAt] = useState(0);
  const dismissed = useRef("");
  const query = wanted?.kind === "file" ? wanted.query : null;
  useEffect(() => {
    if (query === null) return setFiles([]);
    let isGone = false;
    const timer = window.setTimeout(() => {
      app.files(sessionId, query).then(
        (found) => isGone || setFiles(found),
        () => isGone || setFiles([]),
      );
    }, 120);
    return () => {
      isGone = true;
      window.clearTimeout(timer);
    };
  }, [query]);
  const offers = wanted === null ? [] : wanted.kind === "command" ? commandsFor(thread.commands.value, wanted.query) : filesFor(files);
  const close = (): void => setWanted(null);
  const look = (): void => {
    const box = field.current;
    const found = box === null || box.selectionStart !== box.selectionEnd ? null : wantedAt(box.value, box.selectionStart);
    const name = found === null ? "" : `${found.from}${found.kind}`;
    if (name !== dismissed.current) dismissed.current = "";
    setWanted(found !== null && dismissed.current === "" ? found : null);
    if (found?.query !== wanted?.query) setAt(0);
  };
  const choose = (offer: Offer): void => {
    const box = field.current;
    if (box === null || wanted === null) return;
    const draft = app.draft(sessionId);
    draft.value = box.value.slice(0, wanted.from) + offer.text + box.value.slice(wanted.to).replace(/^ /, "");
    const cursor = wanted.from + offer.text.length;
    setWanted(null);
    queueMicrotask(() => {
      box.focus();
      box.value = draft.peek();
      box.setSelectionRange(cursor, cursor);
    });
  };
  const isOpen = offers.length > 0;
  const onKey = (event: KeyboardEvent): boolean => {
    if (!isOpen) return false;
    const offer = offers[at];
    if (event.key === "ArrowDown") setAt((at + 1) % offers.length);
    else if (event.key === "ArrowUp") setAt((at - 1 + offers.length) % offers.length);
    else if ((event.key === "Enter" || event.key === "Tab") && !event.shiftKey && offer !== undefined) choose(offer);
    else if (event.key === "Escape") {
      dismissed.current = wanted === null ? "" : `${wanted.from}${wanted.kind}`;
      close();
    } else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  };
  return { isOpen, at, offers, look, close, choose, onKey };
}

function Offers({ completion }: { completion: Completion }) {
  return (
    <ul class="menu above" id="completions" role="listbox" aria-label={words.input.completions}>
      {completion.offers.map((offer, at) => (
        <li
          key={offer.name}
          id={`completion-${at}`}
          class="item"
          role="option"
          aria-selected={at === completion.at}
          // The field keeps the focus.
          onPointerDown={(event) => event.preventDefault()}
          onClick={() => completion.choose(offer)}
        >
          <span class="cut" dir="auto"><Plain text={offer.name} care="exact" /></span>
          {offer.description && <small class="cut" dir="auto"><Plain text={offer.description} /></small>}
        </li>
      ))}
    </ul>
  );
}
