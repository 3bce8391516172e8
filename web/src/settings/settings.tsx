/** Settings of this browser, the devices of the host, and the end of this pairing. */
import { useState } from "preact/hooks";
import { useApp, type Settings as Kept } from "../app";
import { Devices } from "../devices/devices";
import { Dialog } from "../frame/dialog";
import { Icon } from "../frame/icon";
import { MenuButton } from "../frame/side";
import { toastFailure } from "../frame/toasts";
import { isPhone } from "../frame/width";
import { words } from "../words";

function Choices<T extends string>({ name, label, value, choices, onChange }: { name: string; label: string; value: T; choices: Record<T, string>; onChange: (value: T) => void }) {
  return (
    <fieldset class="optset">
      <legend class="label">{label}</legend>
      <div class="opts">{(Object.entries(choices) as [T, string][]).map(([choice, text]) => (
        <label class="opt" key={choice}><input type="radio" name={name} checked={value === choice} onChange={() => onChange(choice)} /><span>{text}</span></label>
      ))}</div>
    </fieldset>
  );
}

function Appearance() {
  const app = useApp();
  const kept = app.settings.value;
  const set = (change: Partial<Kept>) => (app.settings.value = { ...kept, ...change });
  const [isLeaving, setLeaving] = useState(false);
  return (
    <div>
      <section>
        <h2>{words.settings.appearance}</h2>
        <Choices name="theme" label={words.settings.theme} value={kept.theme} choices={words.settings.themes} onChange={(theme) => set({ theme })} />
        <div class="opts"><label class="opt"><input type="checkbox" checked={kept.letters} onChange={(event) => set({ letters: event.currentTarget.checked })} /><span>{words.settings.letters}</span><small>{words.settings.lettersMore}</small></label></div>
        <Choices name="announce" label={words.settings.announce} value={kept.announce} choices={words.settings.announces} onChange={(announce) => set({ announce })} />
      </section>
      <section>
        <h2>{words.settings.unpairTitle}</h2>
        <p class="s soft">{words.settings.unpairMore}</p>
        <button type="button" class="btn bad unpair" onClick={() => setLeaving(true)}>{words.settings.unpair}</button>
      </section>
      {isLeaving && (
        <Dialog label={words.settings.unpairSure} look={isPhone.value ? "sheetp" : "boxed"} onClose={() => setLeaving(false)}>
          <h2 class="title">{words.settings.unpairSure}</h2>
          <p class="s soft">{words.settings.unpairMore}</p>
          <div class="row foot"><span class="grow" /><button type="button" class="btn quiet" onClick={() => setLeaving(false)}>{words.frame.cancel}</button><button type="button" class="btn bad" onClick={() => { setLeaving(false); app.unpair().catch(toastFailure); }}>{words.settings.unpairDo}</button></div>
        </Dialog>
      )}
    </div>
  );
}

export function Settings({ part }: { part: "devices" | "appearance" }) {
  const link = (name: "devices" | "appearance", path: string, icon: string, label: string) => <a class="nav" href={`#${path}`} {...(part === name ? { "aria-current": "page" as const } : {})}><Icon name={icon} />{label}</a>;
  const inside = (
    <div class="set">
      <nav aria-label={words.settings.title}>{link("devices", "/devices", "laptop", words.devices.title)}{link("appearance", "/settings", "sliders", words.settings.appearance)}</nav>
      {part === "devices" ? <Devices /> : <Appearance />}
    </div>
  );
  if (isPhone.value) return <main class="grow"><header class="big"><h1>{words.settings.title}</h1></header>{inside}</main>;
  return <main class="main"><header class="bar"><MenuButton /><h1>{words.settings.title}</h1></header><div class="list">{inside}</div></main>;
}
