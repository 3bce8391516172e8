/** The side bar: where one can go, and the sessions by what they need. */
import { signal } from "@preact/signals";
import { useApp } from "../app";
import { folderName, grouped, moodOf, sinceOf, titleOf } from "../board/facts";
import type { Row } from "../model";
import { words } from "../words";
import { Dialog } from "./dialog";
import { Icon } from "./icon";
import { place } from "./router";
import { age } from "./times";
import { hasDrawer } from "./width";

const MOST_EARLIER = 12;

/** Whether the drawer is open, and whether the standing side bar is hidden. */
export const isDrawerOpen = signal(false);
export const isSideHidden = signal(false);

/** Shows or hides the side bar, as the width has it. */
export function toggleSide(): void {
  if (hasDrawer.value) isDrawerOpen.value = !isDrawerOpen.value;
  else isSideHidden.value = !isSideHidden.value;
}

/** The button that opens the side bar where it is a drawer; for the headers of screens. */
export function MenuButton() {
  if (!hasDrawer.value && !isSideHidden.value) return null;
  return <button type="button" class="btn quiet icon" aria-label={words.frame.menu} onClick={toggleSide}><Icon name="board" /></button>;
}

/** The icon of a session's state; one that is queued looks like a clock. */
export function MoodIcon({ row }: { row: Row }) {
  const mood = moodOf(row);
  return <Icon name={mood === "queued" ? "clock" : mood} tone={mood === "queued" ? "idle" : mood} label={words.frame.moods[mood]} />;
}

function Tab({ row }: { row: Row }) {
  const where = place.value;
  const isHere = where.name === "session" && where.id === row.sessionId;
  return (
    <a class="tab" href={`#/s/${encodeURIComponent(row.sessionId)}`} {...(isHere ? { "aria-current": "page" as const } : {})}>
      <MoodIcon row={row} />
      <span class="cut" dir="auto">{titleOf(row)}</span>
      <span class="when num">{age(sinceOf(row))}</span>
      <small class="cut"><bdi>{row.own.agent ?? ""}</bdi> · <bdi>{folderName(row.cwd)}</bdi></small>
    </a>
  );
}

function Nav({ name, path, icon, label, count }: { name: string; path: string; icon: string; label: string; count?: number }) {
  const isHere = place.value.name === name || (name === "settings" && place.value.name === "devices");
  return (
    <a class="nav" href={`#${path}`} {...(isHere ? { "aria-current": "page" as const } : {})}>
      <Icon name={icon} />{label}
      {count !== undefined && count > 0 && <span class="count num">{count}</span>}
    </a>
  );
}

function Contents() {
  const app = useApp();
  const rows = app.rows.value.filter((row) => row.own.archivedAt == null);
  const groups = grouped(rows);
  const host = app.host.value;
  const needs = groups.get("need") ?? [];
  const running = groups.get("run") ?? [];
  const earlier = rows.filter((row) => !needs.includes(row) && !running.includes(row)).sort((one, other) => sinceOf(other) - sinceOf(one));
  const isConnected = app.line.value.state === "connected";
  return (
    <>
      <div class="brand">
        <span class="mark" aria-hidden="true">D</span>
        <span class="grow cut">{words.name} {host !== null && <span class="host">{words.frame.on(host.name)}</span>}</span>
      </div>
      <Nav name="inbox" path="/inbox" icon="inbox" label={words.frame.inbox} count={app.questions.value.length} />
      <Nav name="board" path="/" icon="board" label={words.frame.sessions} count={rows.length} />
      <Nav name="settings" path="/settings" icon="sliders" label={words.frame.settings} />
      <div class="tablist">
        {rows.length === 0 && <h2>{words.frame.noSessions}</h2>}
        {needs.length > 0 && <h2>{words.board.groups.need}</h2>}
        {needs.map((row) => <Tab key={row.sessionId} row={row} />)}
        {running.length > 0 && <h2>{words.board.groups.run}</h2>}
        {running.map((row) => <Tab key={row.sessionId} row={row} />)}
        {earlier.length > 0 && <h2>{words.frame.earlier}</h2>}
        {earlier.slice(0, MOST_EARLIER).map((row) => <Tab key={row.sessionId} row={row} />)}
      </div>
      <footer>
        <Icon name={isConnected ? "done" : "off"} tone={isConnected ? "done" : "idle"} />
        <span class="grow">{isConnected ? words.frame.connected : words.frame.notConnected}</span>
        {host !== null && <span class="cut" dir="auto">{host.user}</span>}
      </footer>
    </>
  );
}

export function SideBar() {
  if (hasDrawer.value) {
    if (!isDrawerOpen.value) return null;
    return (
      <Dialog label={words.frame.sessions} look="drawer" onClose={() => (isDrawerOpen.value = false)}>
        <nav class="side" aria-label={words.frame.sessions} onClick={(event) => { if ((event.target as Element).closest("a") !== null) isDrawerOpen.value = false; }}>
          <Contents />
        </nav>
      </Dialog>
    );
  }
  return isSideHidden.value ? null : <nav class="side" aria-label={words.frame.sessions}><Contents /></nav>;
}
