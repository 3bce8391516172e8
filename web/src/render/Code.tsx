/** A code block. While it is open it is plain text that grows; colours come when it is closed, in idle time. */
import { useEffect, useState } from "preact/hooks";
import { words } from "../words";
import { copy } from "./copy";
import type { Token } from "./highlight";
import { Plain } from "./Plain";

export function Code({ text, lang, isOpen }: { text: string; lang: string; isOpen: boolean }) {
  const tokens = useTokens(isOpen ? null : text, lang);
  return (
    <figure class="codeblock">
      <figcaption>
        <span>{lang || words.thread.code}</span>
        <button type="button" class="btn quiet icon" aria-label={words.thread.copyCode} onClick={() => copy(text)}>
          <span class="i i-copy" aria-hidden="true" />
        </button>
      </figcaption>
      <pre tabIndex={0} role="region" aria-label={lang ? words.thread.codeIn(lang) : words.thread.code} dir="ltr">
        <code>{tokens === null ? <Plain text={text} /> : tokens.map((token) => <Colour token={token} />)}</code>
      </pre>
    </figure>
  );
}

function Colour({ token }: { token: Token }) {
  if (token.look === "") return <Plain text={token.text} />;
  return <span class={token.look}><Plain text={token.text} /></span>;
}

/** Return the tokens of a text once the highlighter is there; until then, and for null, return null. */
export function useTokens(text: string | null, lang: string): Token[] | null {
  const [tokens, setTokens] = useState<{ of: string; tokens: Token[] } | null>(null);
  useEffect(() => {
    if (text === null || lang === "") return;
    let isGone = false;
    const stop = whenIdle(() => {
      void import("./highlight").then(({ highlight }) => {
        if (!isGone) setTokens({ of: text, tokens: highlight(text, lang) });
      });
    });
    return () => {
      isGone = true;
      stop();
    };
  }, [text, lang]);
  return tokens !== null && tokens.of === text ? tokens.tokens : null;
}

function whenIdle(run: () => void): () => void {
  if (typeof window.requestIdleCallback === "function") {
    const id = window.requestIdleCallback(run, { timeout: 1_000 });
    return () => window.cancelIdleCallback(id);
  }
  const id = window.setTimeout(run, 50);
  return () => window.clearTimeout(id);
}
