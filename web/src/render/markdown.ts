/** Markdown of agents to HTML that is not safe yet: `sanitise.ts` makes it safe. */
import { Marked } from "marked";

const marked = new Marked({
  gfm: true,
  renderer: {
    // The page has one h1 and the thread one h2; how deep the agent's own heading was is a matter of looks.
    heading({ tokens, depth }) {
      return `<h3 data-depth="${depth}">${this.parser.parseInline(tokens)}</h3>\n`;
    },
    checkbox({ checked }) {
      return checked ? "☑ " : "☐ ";
    },
  },
});

export function markdown(text: string): string {
  return marked.parse(text, { async: false });
}
