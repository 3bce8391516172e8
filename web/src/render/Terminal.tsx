/** Output of a command in its colours. */
import { useMemo } from "preact/hooks";
import { Plain } from "./Plain";
import { sgr } from "./sgr";

export function Terminal({ text }: { text: string }) {
  const lines = useMemo(() => sgr(text), [text]);
  return (
    <>
      {lines.map((line, at) => (
        <>
          {at > 0 && "\n"}
          {line.map((run) => (run.look === "" ? <Plain text={run.text} /> : <span class={run.look}><Plain text={run.text} /></span>))}
        </>
      ))}
    </>
  );
}
