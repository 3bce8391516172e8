/** What is asked, whole: commands, paths, changes, addresses, arguments, and the host's words about them. */
import { Plain } from "../render/Plain";
import { Diff } from "./diff";
import type { Asked, AskedRow } from "./reading";
import { Address, Exact, hides, Words } from "./visible";
import { words } from "../words";

const BLOCKS = ["runs", "shell", "path", "host"];

function Block({ row, asked }: { row: AskedRow; asked: Asked }) {
  if (row.key === "host" && asked.address !== "") return <Address address={asked.address} />;
  return (
    <div>
      <Exact lines={row.lines} />
      {row.note !== "" && <p class="s is-need note">{row.note}</p>}
    </div>
  );
}

/** Whether something of the question cannot be seen as it is. */
export function hidesSomething(asked: Asked): boolean {
  return hides([...asked.rows.flatMap((row) => row.lines), ...asked.diffs.flatMap((diff) => [diff.path, diff.newText]), ...asked.texts].join(" "));
}

export function Body({ asked, agent, isShort }: { asked: Asked; agent: string; isShort: boolean }) {
  const changed = asked.diffs.map((diff) => diff.path);
  const isChanged = (row: AskedRow) => row.key === "path" && row.note === "" && changed.some((path) => row.lines.length === 1 && (row.lines[0] === path || row.lines[0] === `'${path}'`));
  const blocks = asked.rows.filter((row) => BLOCKS.includes(row.key) && (isShort || !isChanged(row)));
  const others = asked.rows.filter((row) => !BLOCKS.includes(row.key) && row.key !== "in");
  return (
    <>
      {blocks.map((row, at) => <Block key={at} row={row} asked={asked} />)}
      {others.length > 0 && (
        <dl>
          {others.map((row, at) => (
            <div key={at}>
              {row.key !== "" && <dt>{words.question.rowNames[row.key] ?? row.key}</dt>}
              <dd>{row.key === "" ? row.lines.join(" ") : <code dir="ltr">{row.lines.map((line, number) => <>{number > 0 && "\n"}<Words key={number} line={line} /></>)}</code>}{row.note !== "" && ` (${row.note})`}</dd>
            </div>
          ))}
        </dl>
      )}
      {!isShort && asked.diffs.map((diff) => <Diff key={diff.path} path={diff.path} oldText={diff.oldText} newText={diff.newText} />)}
      {!isShort && asked.texts.map((text, at) => <figure key={at}><figcaption class="xs faint">{words.question.agentText(agent)}</figcaption><Exact lines={text.split("\n")} /></figure>)}
      {!isShort && !asked.isWhole && <p class="s is-need">{words.question.notWhole}</p>}
      {!isShort && asked.input !== "" && <figure><figcaption class="xs faint">{words.question.inputName}</figcaption><Exact lines={asked.input.split("\n")} /></figure>}
      {asked.agentTitle !== "" && <p class="s soft" dir="auto">{words.question.agentSays(agent)}<q><Words line={asked.agentTitle} /></q></p>}
    </>
  );
}

/** A sentence of the host; what it has in backticks is code. */
function HostWords({ text }: { text: string }) {
  return <>{text.split("`").map((part, at) => (at % 2 === 1 ? <code key={at} dir="ltr"><Words line={part} /></code> : <Plain key={at} text={part} />))}</>;
}

/** The host's lines: where, why, and what cannot be seen. */
export function Grounds({ asked }: { asked: Asked }) {
  return (
    <p class="s soft why">
      {asked.folder !== "" && asked.kind === "execute" && <>{words.question.in}<code dir="ltr"><Words line={asked.folder} /></code>{asked.why !== "" && " · "}</>}
      {asked.why !== "" && <span dir="auto">{words.question.because}<HostWords text={asked.why} /></span>}
      {hidesSomething(asked) && <> · {words.question.hidden}</>}
    </p>
  );
}
