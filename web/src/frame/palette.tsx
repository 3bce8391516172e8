/** Everything by a few letters: sessions, agents, folders, commands. */
import { useMemo, useState } from "preact/hooks";
import { useApp, type App } from "../app";
import { folderName, isFound, moodOf, sinceOf, titleOf } from "../board/facts";
import { clearFilter, folder as folderFilter } from "../board/filter";
import { freshAgent } from "../fresh/choice";
import { words } from "../words";
import { Dialog } from "./dialog";
import { Icon } from "./icon";
import { go, pathOf } from "./router";
import { over } from "./over";

const MOST = 60;

interface Item {
  key: string;
  icon: string;
  label: string;
  more: string;
  run: () => void;
}

function commands(app: App): Item[] {
  const command = (key: string, icon: string, label: string, run: () => void) => ({ key, icon, label, more: words.palette.kinds.command, run });
  return [
    command("new", "plus", words.frame.newSession, () => go("/new")),
    command("inbox", "inbox", words.frame.inbox, () => go("/inbox")),
    command("board", "board", words.frame.sessions, () => { clearFilter(); go("/"); }),
    command("devices", "laptop", words.devices.title, () => go("/devices")),
    command("settings", "sliders", words.frame.settings, () => go("/settings")),
    command("keys", "terminal", words.palette.keys, () => (over.value = "keys")),
    ...(["auto", "light", "dark"] as const).map((theme) =>
      command(`theme-${theme}`, "sliders", words.palette.theme[theme], () => (app.settings.value = { ...app.settings.value, theme })),
    ),
  ];
}

function found(app: App, text: string): Item[] {
  const rows = app.rows.value.filter((row) => row.own.archivedAt == null);
  const has = (label: string) => text.toLowerCase().split(/\s+/).every((word) => label.toLowerCase().includes(word));
  const sessions = rows
    .filter((row) => isFound(row, text))
    .sort((one, other) => Number(moodOf(other) === "need") - Number(moodOf(one) === "need") || sinceOf(other) - sinceOf(one))
    .map((row) => ({ key: row.sessionId, icon: moodOf(row) === "queued" ? "clock" : moodOf(row), label: titleOf(row), more: `${row.own.agent ?? ""} · ${folderName(row.cwd)}`, run: () => go(pathOf(row.sessionId)) }));
  const agents = [...new Set(rows.map((row) => row.own.agent ?? ""))]
    .filter((name) => name !== "" && has(words.palette.startWith(name)))
    .map((name) => ({ key: `agent ${name}`, icon: "plus", label: words.palette.startWith(name), more: words.palette.kinds.agent, run: () => { freshAgent.value = name; go("/new"); } }));
  const folders = [...new Set(rows.map((row) => row.cwd))]
    .filter((path) => has(words.palette.sessionsIn(path)))
    .map((path) => ({ key: `folder ${path}`, icon: "folder", label: words.palette.sessionsIn(folderName(path)), more: path, run: () => { clearFilter(); folderFilter.value = path; go("/"); } }));
  const named = commands(app).filter((item) => has(item.label));
  return [...sessions, ...named, ...agents, ...folders].slice(0, MOST);
}

export function Palette({ onClose }: { onClose: () => void }) {
  const app = useApp();
  const [text, setText] = useState("");
  const [at, setAt] = useState(0);
  const rows = app.rows.value;
  const items = useMemo(() => found(app, text.trim()), [text, rows]);
  const chosen = Math.min(at, items.length - 1);
  const run = (item: Item | undefined) => {
    if (item === undefined) return;
    onClose();
    item.run();
  };
  const onKeyDown = (event: KeyboardEvent) => {
    const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (step !== 0 && items.length > 0) {
      event.preventDefault();
      const next = (chosen + step + items.length) % items.length;
      setAt(next);
      document.getElementById(`found-${next}`)?.scrollIntoView({ block: "nearest" });
    } else if (event.key === "Enter" && !event.isComposing) {
      event.preventDefault();
      run(items[chosen]);
    }
  };
  return (
    <Dialog label={words.palette.title} look="palette" onClose={onClose}>
      <label class="field"><Icon name="search" />
        <input
          role="combobox"
          aria-expanded="true"
          aria-controls="found"
          aria-label={words.palette.find}
          aria-activedescendant={items.length > 0 ? `found-${chosen}` : undefined}
          placeholder={words.palette.find}
          autocomplete="off"
          spellcheck={false}
          value={text}
          onInput={(event) => { setText(event.currentTarget.value); setAt(0); }}
          onKeyDown={onKeyDown}
        />
      </label>
      <ul id="found" role="listbox" aria-label={words.palette.results}>
        {items.map((item, number) => (
          <li key={item.key} id={`found-${number}`} role="option" aria-selected={number === chosen} onClick={() => run(item)}>
            <Icon name={item.icon} /><span class="cut grow" dir="auto">{item.label}</span><span class="xs faint cut" dir="auto">{item.more}</span>
          </li>
        ))}
      </ul>
      {items.length === 0 && <p class="s soft" role="status">{words.palette.none}</p>}
    </Dialog>
  );
}
