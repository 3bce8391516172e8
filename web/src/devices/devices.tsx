/** The paired devices: who may come in, a code for another one, and removing one. */
import { useEffect, useState } from "preact/hooks";
import { useApp, type Device } from "../app";
import { Dialog } from "../frame/dialog";
import { Icon } from "../frame/icon";
import { age } from "../frame/times";
import { toast, toastFailure } from "../frame/toasts";
import { isPhone } from "../frame/width";
import { isPhoneName } from "../pairing/device_name";
import { words } from "../words";

const RIGHTS = ["view", "prompt", "answer", "admin"];
const DAY = 86_400_000;

function rightsText(rights: readonly string[]): string {
  return rights.map((right) => words.devices.rights[right] ?? right).join(", ");
}

/** A code for another device, with the rights that were chosen before it was made. */
function NewCode({ own }: { own: readonly string[] }) {
  const app = useApp();
  const [rights, setRights] = useState<string[]>(() => RIGHTS.filter((right) => own.includes(right) && right !== "admin"));
  const [code, setCode] = useState<{ text: string; until: number } | null>(null);
  const [, tick] = useState(0);
  const isBusy = code !== null && code.until > Date.now();
  useEffect(() => {
    if (!isBusy) return;
    const timer = setInterval(() => tick((count) => count + 1), 1000);
    return () => clearInterval(timer);
  }, [isBusy]);
  const make = () => {
    app.deviceCode(rights).then((made) => setCode({ text: made.code, until: Date.now() + made.seconds * 1000 }), toastFailure);
  };
  const left = code === null ? 0 : Math.max(0, Math.round((code.until - Date.now()) / 1000));
  const isLoopback = /^(localhost|127\.|\[::1\])/.test(location.hostname);
  return (
    <section>
      <h2>{words.devices.add}</h2>
      <p class="s soft">{words.devices.addMore}</p>
      <div class="pairnew">
        <div class="grow">
          {code !== null && left > 0 ? <p class="code-text" data-code>{`${code.text.replace("-", "").slice(0, 4)}-${code.text.replace("-", "").slice(4)}`}</p> : null}
          <p class="s soft"><span class="vh">{words.devices.address} </span>{location.origin}</p>
          {code !== null && <p class="s faint" role="timer">{left > 0 ? words.devices.valid(Math.floor(left / 60), left % 60) : words.devices.over}</p>}
          <fieldset class="rights">
            <legend class="s soft">{words.devices.may}</legend>
            {RIGHTS.filter((right) => own.includes(right)).map((right) => (
              <label class="check" key={right}>
                <input type="checkbox" checked={rights.includes(right)} disabled={right === "view"} onChange={(event) => { setRights(RIGHTS.filter((other) => (other === right ? event.currentTarget.checked : rights.includes(other)))); setCode(null); }} />
                {words.devices.rights[right]}
              </label>
            ))}
          </fieldset>
          <button type="button" class="btn" onClick={make}>{code === null ? words.devices.make : words.devices.again}</button>
          {isLoopback && <p class="xs faint loopback">{words.devices.loopback}</p>}
        </div>
      </div>
    </section>
  );
}

function detailsOf(device: Device): string {
  const parts = [device.agent ?? "", rightsText(device.rights)];
  if (device.isThis) parts.push(words.devices.now);
  else if (device.seenAt !== undefined) parts.push(words.devices.seen(age(device.seenAt)));
  if (device.expiresAt !== undefined) parts.push(words.devices.expires(Math.floor((device.expiresAt - Date.now()) / DAY)));
  return parts.filter((part) => part !== "").join(" · ");
}

export function Devices() {
  const app = useApp();
  const [devices, setDevices] = useState<Device[] | null>(null);
  const [leaving, setLeaving] = useState<Device | null>(null);
  const own = app.host.value?.rights ?? [];
  const isAdmin = own.includes("admin");
  const isConnected = app.line.value.state === "connected";
  const load = () => app.devices().then(setDevices, toastFailure);
  useEffect(() => {
    if (isConnected) void load();
  }, [isConnected]);
  const remove = (device: Device) => {
    setLeaving(null);
    const gone = device.isThis ? app.unpair() : app.removeDevice(device.id);
    gone.then(() => { if (!device.isThis) { toast(words.devices.removed(device.name)); void load(); } }, toastFailure);
  };
  return (
    <div>
      {isAdmin && app.host.value?.methods.includes("_dragoman/devices/code") && <NewCode own={own} />}
      <section>
        <h2>{words.devices.paired}</h2>
        {!isAdmin && <p class="s soft">{words.devices.onlyOwn}</p>}
        {devices !== null && devices.length === 0 && <p class="s soft">{words.devices.none}</p>}
        {devices !== null && devices.length > 0 && (
          <ul class="opts">
            {devices.map((device) => (
              <li class="opt" key={device.id}>
                <Icon name={isPhoneName(`${device.agent ?? ""} ${device.name}`) ? "phone" : device.kind === "token" ? "terminal" : "laptop"} />
                <span class="cut"><bdi>{device.name}</bdi> {device.isThis && <span class="chip ok">{words.devices.thisOne}</span>}{device.kind === "token" && <span class="chip">{words.devices.token}</span>}</span>
                {(isAdmin || device.isThis) && <button type="button" class="btn" aria-label={`${words.devices.remove} ${device.name}`} onClick={() => setLeaving(device)}>{words.devices.remove}</button>}
                <small dir="auto">{detailsOf(device)}</small>
              </li>
            ))}
          </ul>
        )}
      </section>
      {leaving !== null && (
        <Dialog label={words.devices.removeSure(leaving.name)} look={isPhone.value ? "sheetp" : "boxed"} onClose={() => setLeaving(null)}>
          <h2 class="title" dir="auto">{words.devices.removeSure(leaving.name)}</h2>
          <p class="s soft">{words.devices.removeMore}</p>
          <div class="row foot"><span class="grow" /><button type="button" class="btn quiet" onClick={() => setLeaving(null)}>{words.frame.cancel}</button><button type="button" class="btn bad" onClick={() => remove(leaving)}>{words.devices.removeDo}</button></div>
        </Dialog>
      )}
    </div>
  );
}
