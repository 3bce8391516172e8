/** The way in: the code of the host, typed, pasted, or out of the address; it pairs by a press only. */
import { useEffect, useRef, useState } from "preact/hooks";
import { useApp } from "../app";
import { codeFromAddress, codeIn, isWholeCode } from "../frame/fragment";
import { Icon } from "../frame/icon";
import { isPhone } from "../frame/width";
import { words } from "../words";
import { deviceName, isPhoneName } from "./device_name";

const PLACES = [0, 1, 2, 3, 4, 5, 6, 7];

function CodeField({ code, isWrong, onCode }: { code: string; isWrong: boolean; onCode: (code: string) => void }) {
  const [hasFocus, setFocus] = useState(false);
  return (
    <div class="code">
      {PLACES.map((at) => (
        <>
          {at === 4 && <i aria-hidden="true" />}
          <span key={at} aria-hidden="true" class={hasFocus && (at === code.length || (at === 7 && code.length === 8)) ? "now" : ""}>{code[at] ?? ""}</span>
        </>
      ))}
      <input
        aria-label={words.pairing.code}
        aria-describedby="code-hint"
        aria-invalid={isWrong}
        autocomplete="one-time-code"
        autocapitalize="characters"
        autocorrect="off"
        spellcheck={false}
        value={code}
        onFocus={() => setFocus(true)}
        onBlur={() => setFocus(false)}
        onInput={(event) => {
          const field = event.currentTarget;
          const typed = codeIn(field.value);
          field.value = typed;
          onCode(typed);
        }}
      />
    </div>
  );
}

export function Pairing({ why }: { why: "new" | "removed" }) {
  const app = useApp();
  const [isAgain, setAgain] = useState(false);
  const [code, setCode] = useState("");
  const [name, setName] = useState(() => deviceName(navigator.userAgent));
  const [problem, setProblem] = useState("");
  const [isBusy, setBusy] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  const given = codeFromAddress.value;
  useEffect(() => {
    if (given !== "") {
      setCode(given);
      setAgain(true);
      codeFromAddress.value = "";
    }
  }, [given]);
  const isField = why === "new" || isAgain || given !== "";
  useEffect(() => {
    document.title = `${isField ? words.pairing.title : words.pairing.removed} · ${words.name}`;
    if (isField && given === "") form.current?.querySelector<HTMLInputElement>(code === "" ? ".code input" : "#device")?.focus();
  }, [isField]);

  const pair = async (event: Event) => {
    event.preventDefault();
    if (isBusy) return;
    const field = isWholeCode(code) ? (name.trim() === "" ? "#device" : null) : ".code input";
    if (field !== null) {
      setProblem(field === "#device" ? words.pairing.unnamed : words.pairing.short);
      form.current?.querySelector<HTMLInputElement>(field)?.focus();
      return;
    }
    setBusy(true);
    setProblem("");
    try {
      const answer = await app.pair(code, name.trim());
      if (!answer.ok) {
        setProblem(answer.message);
        setCode("");
        form.current?.querySelector<HTMLInputElement>(".code input")?.focus();
      }
    } catch (error) {
      setProblem(words.frame.failed(error instanceof Error ? error.message : String(error)));
    } finally {
      setBusy(false);
    }
  };

  return (
    <div class={isPhone.value ? "phone" : ""}>
      <main class="page">
        <section class="sheet">
          <div class="brand"><span class="mark" aria-hidden="true">D</span>{words.name}</div>
          {!isField ? (
            <>
              <h1>{words.pairing.removed}</h1>
              <p>{words.pairing.removedMore}</p>
              <button type="button" class="btn solid wide" onClick={() => setAgain(true)}>{words.pairing.again}</button>
            </>
          ) : (
            <form ref={form} onSubmit={(event) => void pair(event)} noValidate>
              <h1>{words.pairing.title}</h1>
              <p>{words.pairing.before}<code>{words.pairing.command}</code>{words.pairing.after}</p>
              <CodeField code={code} isWrong={problem !== "" && !isWholeCode(code)} onCode={(typed) => { setCode(typed); setProblem(""); }} />
              <p class="xs faint" id="code-hint">{words.pairing.hint}</p>
              <label class="label" for="device">{words.pairing.device}</label>
              <div class="input">
                <span class="faint"><Icon name={isPhoneName(name) ? "phone" : "laptop"} /></span>
                <input id="device" value={name} maxLength={80} autocomplete="off" onInput={(event) => setName(event.currentTarget.value)} />
              </div>
              <p class="problem s" role="alert">{problem}</p>
              <button type="submit" class="btn solid wide" aria-disabled={isBusy}>{isBusy ? words.pairing.pairing : words.pairing.pair}</button>
              <p class="xs faint"><Icon name="lock" /> {words.pairing.ends}</p>
            </form>
          )}
        </section>
      </main>
    </div>
  );
}
