/** Model, mode and other options of a session that was opened for them. */
import { useApp } from "../app";
import { toastFailure } from "../frame/toasts";
import type { Thread } from "../model";
import { reachOf } from "../state/settings";
import { words } from "../words";

export function Options({ thread }: { thread: Thread }) {
  const app = useApp();
  const modes = thread.modes.value;
  const options = thread.options.value.filter((option) => !(modes !== null && option.category === "mode"));
  const mode = modes?.modes.find((found) => found.id === modes.current);
  const isUnlimited = (option: string, value: string): boolean => reachOf(thread.reaches.value, option, value) === "unlimited";
  const isSilent = mode !== undefined && isUnlimited("", mode.id);
  return (
    <div class="options">
      {modes !== null && (
        <label class="formfield"><span class="label">{words.fresh.mode}</span>
          <select class={`input${isSilent ? " is-need" : ""}`} value={modes.current} onChange={(event) => void app.setMode(thread.sessionId, event.currentTarget.value).catch(toastFailure)}>
            {modes.modes.map((found) => <option key={found.id} value={found.id}>{found.name}</option>)}
          </select>
          <span class={isSilent ? "xs is-need" : "xs faint"} dir="auto">{isSilent ? words.fresh.asksNothing : (mode?.description ?? "")}</span>
        </label>
      )}
      {options.map((option) => (
        <label class={option.kind === "boolean" ? "check" : "formfield"} key={option.id}>
          {option.kind === "boolean" ? (
            <><input type="checkbox" checked={option.value === true} onChange={(event) => void app.setOption(thread.sessionId, option.id, event.currentTarget.checked).catch(toastFailure)} /><span dir="auto">{option.name}</span></>
          ) : (
            <>
              <span class="label" dir="auto">{option.name}</span>
              <select class={`input${isUnlimited(option.id, String(option.value)) ? " is-need" : ""}`} value={String(option.value)} onChange={(event) => void app.setOption(thread.sessionId, option.id, event.currentTarget.value).catch(toastFailure)}>
                {option.choices.map((choice) => <option key={choice.value} value={choice.value}>{choice.name}</option>)}
              </select>
              {isUnlimited(option.id, String(option.value)) && <span class="xs is-need">{words.fresh.asksNothing}</span>}
            </>
          )}
        </label>
      ))}
    </div>
  );
}
