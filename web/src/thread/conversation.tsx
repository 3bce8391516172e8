/** The conversation of one session. */
import { useApp } from "../app";
import { titleOf } from "../board/facts";
import { MenuButton } from "../frame/side";

export function Conversation({ sessionId }: { sessionId: string }) {
  const row = useApp().rows.value.find((found) => found.sessionId === sessionId);
  return <main class="main"><header class="bar"><MenuButton /><h1 class="cut" dir="auto">{row === undefined ? "" : titleOf(row)}</h1></header></main>;
}
