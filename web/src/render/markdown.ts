/**
 * Markdown of agents to HTML that is not safe yet: `sanitise.ts` makes it safe.
 *
 * HTML inside of Markdown is shown as it was written, but for a few tags without attributes. It could not do anything
 * anyway, but the browser reports an `onerror` as soon as it is parsed, and what an agent wrote should not vanish.
 */
import { Marked } from "marked";

const PLAIN_TAG = /&lt;(\/?(?:b|br|code|del|em|i|kbd|mark|s|samp|small|strong|sub|sup|var)) ?\/?&gt;/gi;

function asText(html: string): string {
  return html.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;").replaceAll('"', "&quot;").replace(PLAIN_TAG, "<$1>");
}

const marked = new Marked({
  gfm: true,
  renderer: {
    // The page has one h1 and the thread one h2; how deep the agent's own heading was is a matter of looks.
    heading({ tokens, depth }) {
      return `<h3 data-depth="${depth}">${this.parser.parseInline(tokens)}</h3>\n`;
    },
    html({ text }) {
      return asText(text);
    },
    checkbox({ checked }) {
      return checked ? "☑ " : "☐ ";
    },
  },
});

export function markdown(text: string): string {
  return marked.parse(text, { async: false });
}
