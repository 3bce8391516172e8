/** Text of an agent or a user as it is, with what hides in it spelled. */
import { visible, type Care } from "./visible";

export function Plain({ text, care = "prose" }: { text: string; care?: Care }) {
  const pieces = visible(text, care);
  if (pieces.length === 1 && pieces[0]?.isSpelled === false) return <>{text}</>;
  return <>{pieces.map((piece) => (piece.isSpelled ? <span class="chip bad">{piece.text}</span> : piece.text))}</>;
}
