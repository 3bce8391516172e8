/** The list of all keys. */
import { words } from "../words";
import { Dialog } from "./dialog";
import { Icon } from "./icon";
import { altKey, modKey } from "./keys";

const rows = words.keys.rows;
const GROUPS: [string, [string, string][]][] = [
  [words.keys.screens, [[`${modKey} K`, rows.palette], ["g i", rows.inbox], ["g s", rows.sessions], ["n", rows.fresh], [`${altKey} ↑, ${altKey} ↓`, rows.needs], [`${modKey} B`, rows.side], ["?", rows.help]]],
  [words.keys.lists, [["j, k", rows.move], ["Enter", rows.open], ["/", rows.find], [`${altKey} 1 – 9`, rows.answer]]],
  [words.keys.session, [["Enter, Shift Enter", rows.send], [`${modKey} Enter`, rows.steer], ["Esc", rows.stop], ["↑", rows.back], ["Shift Tab", rows.mode], [`${modKey} .`, rows.panel], ["t", rows.thoughts]]],
];

export function KeyHelp({ onClose }: { onClose: () => void }) {
  return (
    <Dialog label={words.keys.title} look="boxed" onClose={onClose}>
      <div class="row"><h2 class="grow title">{words.keys.title}</h2><button type="button" class="btn quiet icon" aria-label={words.frame.close} onClick={onClose}><Icon name="x" /></button></div>
      {GROUPS.map(([name, keys]) => (
        <section key={name} class="keys">
          <h3 class="label">{name}</h3>
          <dl>{keys.map(([key, does]) => <div key={key}><dt><kbd>{key}</kbd></dt><dd>{does}</dd></div>)}</dl>
        </section>
      ))}
      <p class="xs faint">{words.keys.note}</p>
    </Dialog>
  );
}
