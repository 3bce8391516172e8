/** Search in this session: the host looks through the whole history, not only what is loaded. */
import { useEffect, useRef, useState } from "preact/hooks";
import { useApp, type Found } from "../app";
import { Dialog } from "../frame/dialog";
import { go, pathOf } from "../frame/router";
import { clock } from "../frame/times";
import { isPhone } from "../frame/width";
import { Plain } from "../render/Plain";
import { words } from "../words";
import { useTalk } from "./context";

interface Places {
  of: string;
  hits: Found["hits"];
  before?: Found["before"];
  problem?: string;
}

export function Search({ onClose }: { onClose: () => void }) {
  const app = useApp();
  const { sessionId } = useTalk();
  const [text, setText] = useState("");
  const [found, setFound] = useState<Places | null>(null);
  const [isBusy, setBusy] = useState(false);
  const wantedNow = useRef("");
  /** Asks the host, and again as long as it has read only a part of the history and found nothing in it. */
  const look = async (wanted: string, known: Places | null): Promise<void> => {
    setBusy(true);
    let hits = known?.hits ?? [];
    let before = known?.before;
    try {
      do {
        const answer = await app.search(wanted, sessionId, before);
        if (wantedNow.current !== wanted) return;
        hits = [...hits, ...answer.hits];
        before = answer.before;
      } while (before !== undefined && hits.length === (known?.hits.length ?? 0));
      setFound({ of: wanted, hits, before });
    } catch (error) {
      if (wantedNow.current === wanted) setFound({ of: wanted, hits, before, problem: error instanceof Error ? error.message : String(error) });
    } finally {
      if (wantedNow.current === wanted) setBusy(false);
    }
  };
  useEffect(() => {
    const wanted = text.trim();
    wantedNow.current = wanted;
    if (wanted.length < 2) return setFound(null);
    const timer = window.setTimeout(() => void look(wanted, null), 200);
    return () => {
      wantedNow.current = "";
      window.clearTimeout(timer);
    };
  }, [text]);
  return (
    <Dialog label={words.thread.search} look={isPhone.value ? "sheetp" : "palette"} onClose={onClose}>
      <div class="finding">
        <input class="input" type="search" value={text} placeholder={words.thread.searchHere} aria-label={words.thread.searchHere} dir="auto" autoFocus onInput={(event) => setText(event.currentTarget.value)} />
        <p class="xs faint" role="status">{found === null ? words.thread.searchHint : (found.problem ?? words.thread.hits(found.hits.length, found.before !== undefined))}</p>
        <ul class="hits">
          {found?.hits.map((hit) => (
            <li key={hit.seq}>
              <button
                type="button"
                class="hit"
                onClick={() => {
                  onClose();
                  go(pathOf(sessionId, String(hit.seq)), true);
                }}
              >
                <span class="cut grow" dir="auto"><Marked text={hit.around} word={found.of} /></span>
                {hit.at !== undefined && <span class="xs faint num">{clock(hit.at)}</span>}
              </button>
            </li>
          ))}
        </ul>
        {found?.before !== undefined && <button type="button" class="btn" aria-disabled={isBusy} onClick={() => isBusy || void look(found.of, found)}>{isBusy ? words.thread.searching : words.thread.moreHits}</button>}
      </div>
    </Dialog>
  );
}

function Marked({ text, word }: { text: string; word: string }) {
  const at = text.toLowerCase().indexOf(word.toLowerCase());
  if (at < 0) return <Plain text={text} />;
  return <><Plain text={text.slice(0, at)} /><mark><Plain text={text.slice(at, at + word.length)} /></mark><Plain text={text.slice(at + word.length)} /></>;
}
