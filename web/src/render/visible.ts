/** Characters that cannot be seen, or that change how others are shown, spelled by their number. */

export interface Piece {
  text: string;
  /** True for a character that is spelled, as in `U+202E`. */
  isSpelled: boolean;
}

// Control and format characters, everything that is drawn as nothing, and halves of characters. Line feed and tab stay.
const HIDDEN = /(?![\n\t])(?!(?<=\p{Emoji})\ufe0f)[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{DI}]/gu;
// In commands and paths a space that is not a space counts as hidden too.
const HIDDEN_EXACT = /(?![\n\t ])(?!(?<=\p{Emoji})\ufe0f)[\p{Cc}\p{Cf}\p{Cs}\p{Z}\p{DI}\u2800]/gu;
// What languages and emoji need within words: joiners, soft hyphens, marks of direction, variants of a letter.
const NEEDED = /[\u00ad\u061c\u200c-\u200f\ufe00-\ufe0f]/u;
const MAYBE = /[^\n\t\x20-\x7e]/;

export type Care = "prose" | "exact";

/** Return the text in pieces; the pieces of most texts are one. */
export function visible(text: string, care: Care = "prose"): Piece[] {
  if (!MAYBE.test(text)) return text === "" ? [] : [{ text, isSpelled: false }];
  const pieces: Piece[] = [];
  let done = 0;
  for (const found of text.matchAll(care === "exact" ? HIDDEN_EXACT : HIDDEN)) {
    if (care === "prose" && NEEDED.test(found[0])) continue;
    if (found[0] === "\r" && text[found.index + 1] === "\n") {
      // A line end of two characters is a line end.
      pieces.push({ text: text.slice(done, found.index), isSpelled: false });
      done = found.index + 1;
      continue;
    }
    if (found.index > done) pieces.push({ text: text.slice(done, found.index), isSpelled: false });
    pieces.push({ text: spelled(found[0]), isSpelled: true });
    done = found.index + found[0].length;
  }
  if (done < text.length) pieces.push({ text: text.slice(done), isSpelled: false });
  return pieces;
}

/** Return the text as one string, for attributes and names that a screen reader speaks. */
export function plain(text: string, care: Care = "prose"): string {
  return visible(text, care).map((piece) => piece.text).join("");
}

function spelled(character: string): string {
  return `U+${(character.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}`;
}
