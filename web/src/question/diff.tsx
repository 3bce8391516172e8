/** The change of one file within a question: its path, how many lines, and all of them. */
import { DiffView, useDiff } from "../render/DiffView";
import { words } from "../words";
import { Words } from "./visible";

export function Diff({ path, oldText, newText }: { path: string; oldText: string | null; newText: string }) {
  const diff = useDiff(oldText, newText);
  return (
    <figure class="qdiff">
      <figcaption><code dir="ltr"><Words line={path} /></code> <span class="num xs"><span class="plus">+{diff.added}</span> <span class="minus">−{diff.removed}</span></span>{oldText === null && <span class="chip">{words.question.newFile}</span>}</figcaption>
      <DiffView diff={diff} path={path} />
    </figure>
  );
}
