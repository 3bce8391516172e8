/**
 * A small highlighter: five classes (keyword, value, comment, string, plain), one pattern for each family of languages.
 *
 * It is loaded when the first closed code block is on the page, and never parses: a wrong colour costs nothing.
 */

export interface Token {
  text: string;
  /** "k1" keyword, "k2" value, "k3" comment, "k4" string, "" plain. */
  look: string;
}

interface Family {
  comment: string;
  string: string;
  keywords: string;
}

const HASH = "#.*";
const SLASHES = "\\/\\/.*|\\/\\*[\\s\\S]*?(?:\\*\\/|$)";
const QUOTES = `"(?:\\\\.|[^"\\\\\\n])*"?|'(?:\\\\.|[^'\\\\\\n])*'?`;
const BACKTICK = "`(?:\\\\[\\s\\S]|[^`\\\\])*`?";

const C_WORDS =
  "abstract as async await break case catch class const continue default defer delete do else enum export extends extern fallthrough final finally fn for foreach from func function get go goto if impl implements import in instanceof interface internal is let loop match mod mut namespace new of operator override package private protected pub public readonly ref return sealed set static struct super switch template this throw throws trait try type typedef typeof union unsafe use using val var virtual void volatile when where while with yield";
const FAMILIES: Record<string, Family> = {
  c: { comment: SLASHES, string: `${BACKTICK}|${QUOTES}`, keywords: C_WORDS },
  python: {
    comment: HASH,
    string: `[rbfuRBFU]{0,2}(?:"""[\\s\\S]*?(?:"""|$)|'''[\\s\\S]*?(?:'''|$)|${QUOTES})`,
    keywords:
      "and as assert async await break case class continue def del elif else except finally for from global if import in is lambda match nonlocal not or pass raise return try type while with yield",
  },
  ruby: {
    comment: HASH,
    string: QUOTES,
    keywords: "alias and begin break case class def do else elsif end ensure for if in module next not or redo rescue retry return self super then undef unless until when while yield",
  },
  shell: {
    comment: "(?<![^\\s;])#.*",
    string: `"(?:\\\\.|[^"\\\\])*"?|'[^']*'?`,
    keywords: "case do done elif else esac export fi for function if in local return select set shift then time trap unset until while",
  },
  sql: {
    comment: "--.*|\\/\\*[\\s\\S]*?(?:\\*\\/|$)",
    string: QUOTES,
    keywords:
      "add all alter and as asc begin between by case check column commit constraint create cross default delete desc distinct drop else end exists foreign from full group having if in index inner insert into is join key left like limit not null on or order outer primary references right rollback select set table then union unique update using values view when where with",
  },
  data: { comment: HASH, string: `"""[\\s\\S]*?(?:"""|$)|${QUOTES}`, keywords: "" },
  json: { comment: SLASHES, string: QUOTES, keywords: "" },
  markup: { comment: "<!--[\\s\\S]*?(?:-->|$)", string: QUOTES, keywords: "" },
  style: { comment: "\\/\\*[\\s\\S]*?(?:\\*\\/|$)", string: QUOTES, keywords: "important media import supports keyframes layer container" },
  lua: { comment: "--.*", string: QUOTES, keywords: "and break do else elseif end for function goto if in local not or repeat return then until while" },
};

const NAMES: Record<string, string> = {
  c: "c h cc cpp cxx hpp cs java js jsx mjs cjs ts tsx typescript javascript kt kotlin swift go golang rs rust php scala dart proto zig",
  python: "py python pyi python3 starlark bzl",
  ruby: "rb ruby rake",
  shell: "sh bash zsh fish shell console dockerfile make makefile mk",
  sql: "sql postgres postgresql sqlite mysql",
  data: "yaml yml toml ini cfg conf properties tf hcl nix",
  json: "json jsonc json5",
  markup: "html xml svg vue svelte xhtml",
  style: "css scss less",
  lua: "lua hs haskell elm",
};

const BY_NAME = new Map(Object.entries(NAMES).flatMap(([family, names]) => names.split(" ").map((name) => [name, family])));
const patterns = new Map<string, RegExp>();
// Above this the colours are not worth the time of a frame.
const MOST = 60_000;

function patternOf(name: string): RegExp | null {
  const known = BY_NAME.get(name);
  const family = known === undefined ? undefined : FAMILIES[known];
  if (known === undefined || family === undefined) return null;
  let pattern = patterns.get(known);
  if (pattern === undefined) {
    const flags = known === "sql" ? "giu" : "gu";
    const keywords = family.keywords === "" ? "(?!)" : `(?<![\\p{L}\\p{N}_$.-])(?:${family.keywords.replaceAll(" ", "|")})(?![\\p{L}\\p{N}_$-])`;
    const tags = known === "markup" ? "|<\\/?[\\w:-]+|\\/?>" : "";
    const values = "(?<![\\p{L}\\p{N}_$])(?:true|false|null|nil|none|None|True|False|undefined|0[xXbBoO][\\da-fA-F_]+|\\d[\\d_]*(?:\\.\\d+)?(?:[eE][+-]?\\d+)?)(?![\\p{L}_$])";
    pattern = new RegExp(`(${family.comment})|(${family.string})|(${keywords}${tags})|(${values})`, flags);
    patterns.set(known, pattern);
  }
  return pattern;
}

const LOOKS = ["k3", "k4", "k1", "k2"];

/** Return the text in tokens; a language that is not known is one plain token. */
export function highlight(text: string, language: string): Token[] {
  if (language === "diff" || language === "patch") return ofDiff(text);
  const pattern = text.length > MOST ? null : patternOf(language);
  if (pattern === null) return [{ text, look: "" }];
  const tokens: Token[] = [];
  let done = 0;
  for (const found of text.matchAll(pattern)) {
    if (found[0] === "") continue;
    if (found.index > done) tokens.push({ text: text.slice(done, found.index), look: "" });
    const look = LOOKS[found.slice(1).findIndex((group) => group !== undefined)] ?? "";
    tokens.push({ text: found[0], look });
    done = found.index + found[0].length;
  }
  if (done < text.length) tokens.push({ text: text.slice(done), look: "" });
  return tokens;
}

function ofDiff(text: string): Token[] {
  return text.split(/(?<=\n)/).map((line) => {
    if (/^(?:\+\+\+|---|diff |index )/.test(line)) return { text: line, look: "k3" };
    if (line.startsWith("@@")) return { text: line, look: "k1" };
    return { text: line, look: line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : "" };
  });
}

/** Return the language of a path by the end of its name. */
export function languageOf(path: string): string {
  const name = path.split(/[\\/]/).at(-1)?.toLowerCase() ?? "";
  return name.includes(".") ? (name.split(".").at(-1) ?? "") : name;
}
