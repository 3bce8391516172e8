/** Changed lines of one file: unified, words marked, colours of the language when the highlighter is there. */
import { useEffect, useMemo, useState } from "preact/hooks";
import { words } from "../words";
import { diffOf, type Diff, type DiffRow, type Span } from "./diff";
import type { Token } from "./highlight";
import { Plain } from "./Plain";

const MOST_ROWS = 400;

export function useDiff(oldText: string | null, newText: string, first?: number): Diff {
  return useMemo(() => diffOf(oldText, newText, first), [oldText, newText, first]);
}

export function DiffView({ diff, path }: { diff: Diff; path: string }) {
  const [most, setMost] = useState(MOST_ROWS);
  const colours = useColours(diff, path);
  const rows = diff.rows.length > most + 20 ? diff.rows.slice(0, most) : diff.rows;
  const left = diff.rows.length - rows.length;
  return (
    <>
      <div class="diff" role="table" aria-label={words.thread.changedLines}>
        {rows.map((row) => <Row row={row} colours={colours} />)}
      </div>
      {left > 0 && (
        <button type="button" class="btn quiet more" onClick={() => setMost(most + 2_000)}>{words.thread.showLines(left)}</button>
      )}
    </>
  );
}

const LOOKS = { same: "", add: "a", del: "d", gap: "gap" } as const;
const SPOKEN = { same: "", add: words.thread.added, del: words.thread.removed, gap: "" } as const;

function Row({ row, colours }: { row: DiffRow; colours: ((text: string) => Token[]) | null }) {
  if (row.kind === "gap") {
    return <div class="gap" role="row"><span class="n" role="cell" /><span class="n" role="cell" /><span class="c" role="cell">⋯</span></div>;
  }
  const line = row.spans.map((span) => span.text).join("");
  return (
    <div class={LOOKS[row.kind]} role="row">
      <span class="n" role="cell">{row.before}</span>
      <span class="n" role="cell">{row.after}</span>
      <span class="c" role="cell" dir="ltr">
        {SPOKEN[row.kind] && <span class="vh">{SPOKEN[row.kind]} </span>}
        {colours === null || line.length > 2_000 ? row.spans.map(plainSpan) : coloured(row.spans, colours(line))}
      </span>
    </div>
  );
}

function plainSpan(span: Span) {
  return span.isMarked ? <mark><Plain text={span.text} care="exact" /></mark> : <Plain text={span.text} care="exact" />;
}

// Marks and colours overlap: the line is cut at the edges of both.
function coloured(spans: readonly Span[], tokens: readonly Token[]) {
  const made = [];
  let at = 0;
  let from = 0;
  for (const span of spans) {
    const inner = [];
    let left = span.text.length;
    while (left > 0) {
      const token = tokens[at];
      if (token === undefined) break;
      const text = token.text.slice(from, from + left);
      inner.push(token.look === "" ? <Plain text={text} care="exact" /> : <span class={token.look}><Plain text={text} care="exact" /></span>);
      left -= text.length;
      from += text.length;
      if (from >= token.text.length) {
        at++;
        from = 0;
      }
    }
    made.push(span.isMarked ? <mark>{inner}</mark> : inner);
  }
  return made;
}

function useColours(diff: Diff, path: string): ((text: string) => Token[]) | null {
  const [colours, setColours] = useState<{ of: string; paint: (text: string) => Token[] } | null>(null);
  const isSmall = diff.rows.length <= MOST_ROWS;
  useEffect(() => {
    if (!isSmall) return;
    let isGone = false;
    void import("./highlight").then(({ highlight, languageOf }) => {
      const language = languageOf(path);
      if (!isGone) setColours({ of: path, paint: (text) => highlight(text, language) });
    });
    return () => {
      isGone = true;
    };
  }, [path, isSmall]);
  return isSmall && colours?.of === path ? colours.paint : null;
}
