/** The menu of a session: rename, link, search, restart, archive. */
import { useState } from "preact/hooks";
import { useApp } from "../app";
import { Dialog } from "../frame/dialog";
import { go, pathOf } from "../frame/router";
import { toast, toastFailure } from "../frame/toasts";
import { isPhone } from "../frame/width";
import { Menu, type Choice } from "../input/menu";
import type { Row } from "../model";
import { copy } from "../render/copy";
import type { HostMethod } from "../wire/types";
import { words } from "../words";
import { useTalk } from "./context";

export function MoreMenu({ row, onSearch }: { row: Row | undefined; onSearch: () => void }) {
  const app = useApp();
  const { sessionId, thread, agent } = useTalk();
  const [isNaming, setNaming] = useState(false);
  const host = app.host.value;
  const has = (method: HostMethod): boolean => host?.methods.includes(method) ?? false;
  const canPrompt = host?.rights.includes("prompt") ?? false;
  const isArchived = row?.own.archivedAt != null;
  const choices: Choice[] = [{ id: "link", name: words.thread.copySession }];
  if (has("_dragoman/search")) choices.push({ id: "search", name: words.thread.search });
  if (canPrompt) choices.push({ id: "rename", name: words.thread.rename });
  if (has("_dragoman/restart_agent") && canPrompt) choices.push({ id: "restart", name: words.thread.restartAgent });
  if (canPrompt) choices.push({ id: "archive", name: isArchived ? words.thread.unarchive : words.thread.archive });
  const choose = (id: string): void => {
    if (id === "search") onSearch();
    else if (id === "rename") setNaming(true);
    else if (id === "restart") app.restartAgent(sessionId).then(() => toast(words.thread.restarted(agent)), toastFailure);
    else if (id === "link") {
      const address = `${location.origin}${location.pathname}#${pathOf(sessionId)}`;
      void copy(address).then((isDone) => toast(isDone ? words.thread.copied : words.thread.notCopied));
    } else if (id === "archive") {
      app.archive(sessionId, !isArchived).then(
        () => {
          if (!isArchived) go("/");
          toast(isArchived ? words.thread.unarchived : words.thread.archived, {
            label: words.frame.undo,
            run: () => void app.archive(sessionId, isArchived).catch(toastFailure),
          });
        },
        toastFailure,
      );
    }
  };
  return (
    <>
      <Menu label={words.thread.more} icon="more" look={isPhone.value ? "tap" : "btn quiet icon"} side="below end" choices={choices} onChoose={choose} />
      {isNaming && <Rename title={thread.title.peek() ?? row?.title ?? ""} onClose={() => setNaming(false)} />}
    </>
  );
}

function Rename({ title, onClose }: { title: string; onClose: () => void }) {
  const app = useApp();
  const { sessionId } = useTalk();
  const [text, setText] = useState(title);
  return (
    <Dialog label={words.thread.rename} look={isPhone.value ? "sheetp" : "box"} onClose={onClose}>
      <form
        class="naming"
        onSubmit={(event) => {
          event.preventDefault();
          void app.setTitle(sessionId, text.trim()).catch(toastFailure);
          onClose();
        }}
      >
        <h2>{words.thread.rename}</h2>
        <input class="input" value={text} aria-label={words.thread.newTitle} dir="auto" maxLength={200} onInput={(event) => setText(event.currentTarget.value)} />
        <div class="row">
          <button type="submit" class="btn solid" disabled={text.trim() === ""}>{words.thread.save}</button>
          <button type="button" class="btn" onClick={onClose}>{words.frame.cancel}</button>
        </div>
      </form>
    </Dialog>
  );
}
