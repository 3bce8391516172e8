/** Search in this session: the host looks through the whole history, not only what is loaded. */
import { useEffect, useState } from "preact/hooks";
import { useApp } from "../app";
import { Dialog } from "../frame/dialog";
import { go, pathOf } from "../frame/router";
import { clock } from "../frame/times";
import { isPhone } from "../frame/width";
import { Plain } from "../render/Plain";
import { words } from "../words";
import { useTalk } from "./context";

type Hits = { seq: number; around: string; at?: number }[];

export function Search({ onClose }: { onClose: () => void }) {
  const app = useApp();
  const { sessionId } = useTalk();
  const [text, setText] = useState("");
  const [found, setFound] = useState<{ of: string; hits: Hits; problem?: string } | null>(null);
  useEffect(() => {
    const wanted = text.trim();
    if (wanted.length < 2) return setFound(null);
    let isGone = false;
    const timer = window.setTimeout(() => {
      app.search(wanted, sessionId).then(
        (hits) => isGone || setFound({ of: wanted, hits }),
        (error: unknown) => isGone || setFound({ of: wanted, hits: [], problem: error instanceof Error ? error.message : String(error) }),
      );
    }, 200);
    return () => {
      isGone = true;
      window.clearTimeout(timer);
    };
  }, [text]);
  return (
    <Dialog label={words.thread.search} look={isPhone.value ? "sheetp" : "palette"} onClose={onClose}>
      <div class="finding">
        <input class="input" type="search" value={text} placeholder={words.thread.searchHere} aria-label={words.thread.searchHere} dir="auto" autoFocus onInput={(event) => setText(event.currentTarget.value)} />
        <p class="xs faint" role="status">{found === null ? words.thread.searchHint : (found.problem ?? words.thread.hits(found.hits.length))}</p>
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
      </div>
    </Dialog>
  );
}

function Marked({ text, word }: { text: string; word: string }) {
  const at = text.toLowerCase().indexOf(word.toLowerCase());
  if (at < 0) return <Plain text={text} />;
  return <><Plain text={text.slice(0, at)} /><mark><Plain text={text.slice(at, at + word.length)} /></mark><Plain text={text.slice(at + word.length)} /></>;
}
