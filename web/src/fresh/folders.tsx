/** Choosing a folder of the host: those used before, and a walk through what this device may see. */
import { useEffect, useState } from "preact/hooks";
import { useApp } from "../app";
import { folderName } from "../board/facts";
import { Dialog } from "../frame/dialog";
import { Icon } from "../frame/icon";
import { isPhone } from "../frame/width";
import { words } from "../words";

/** The answer of `_dragoman/folders`. */
export interface Folders {
  folders: { path: string }[];
  recent: { path: string; usedAt: number }[];
  path?: string;
  parent?: string | null;
  children?: { name: string; path: string; isProject: boolean }[];
  isCut?: boolean;
}

export function FolderDialog({ start, onChoose, onClose }: { start: string; onChoose: (path: string) => void; onClose: () => void }) {
  const app = useApp();
  const [typed, setTyped] = useState(start);
  const [found, setFound] = useState<Folders | null>(null);
  const [problem, setProblem] = useState("");
  const visit = (path: string | undefined) => {
    setProblem("");
    app.call<Folders>("_dragoman/folders", path === undefined ? {} : { path }).then(
      (answer) => {
        setFound(answer);
        if (answer.path !== undefined) setTyped(answer.path);
      },
      (error: unknown) => setProblem(error instanceof Error ? error.message : String(error)),
    );
  };
  useEffect(() => visit(start === "" ? undefined : start), []);
  const children = found?.children ?? (found === null ? [] : found.folders.map((folder) => ({ name: folder.path, path: folder.path, isProject: false })));
  return (
    <Dialog label={words.fresh.chooseFolder} look={isPhone.value ? "sheetp" : "boxed wide"} onClose={onClose}>
      <h2 class="title">{words.fresh.chooseFolder}</h2>
      <form class="row" onSubmit={(event) => { event.preventDefault(); visit(typed.trim() === "" ? undefined : typed.trim()); }}>
        <input class="input grow" aria-label={words.fresh.path} dir="ltr" spellcheck={false} autocomplete="off" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
        <button type="button" class="btn" aria-label={words.fresh.up} disabled={found?.parent == null} onClick={() => visit(found?.parent ?? undefined)}><Icon name="up" /></button>
      </form>
      {problem !== "" && <p class="s is-fail" role="alert">{problem}</p>}
      <ul class="folders" tabIndex={0} aria-label={words.fresh.folder}>
        {children.map((child) => (
          <li key={child.path}><button type="button" class="btn quiet" onClick={() => visit(child.path)}><Icon name="folder" /><span class="cut" dir="auto">{child.name}</span>{child.isProject && <span class="chip">{words.fresh.project}</span>}</button></li>
        ))}
        {found !== null && children.length === 0 && <li class="s faint">{words.fresh.noChildren}</li>}
        {found?.isCut === true && <li class="s faint">{words.fresh.cut}</li>}
      </ul>
      {(found?.recent.length ?? 0) > 0 && (
        <>
          <h3 class="label">{words.fresh.recent}</h3>
          <ul class="folders recent" tabIndex={0} aria-label={words.fresh.recent}>
            {found?.recent.map((folder) => <li key={folder.path}><button type="button" class="btn quiet" onClick={() => onChoose(folder.path)}><Icon name="clock" /><span class="cut" dir="ltr">{folder.path}</span></button></li>)}
          </ul>
        </>
      )}
      <div class="row foot"><span class="grow" /><button type="button" class="btn quiet" onClick={onClose}>{words.frame.cancel}</button><button type="button" class="btn solid" disabled={typed.trim() === ""} onClick={() => onChoose(typed.trim())}>{words.fresh.useThis}</button></div>
    </Dialog>
  );
}

/** Returns how a path is shown in a button: whole if it is short. */
export function shortPath(path: string): string {
  return path.length <= 34 ? path : `…/${folderName(path)}`;
}
