/** The line above a screen: the host cannot be reached (nothing for the first two seconds), or has another page. */
import { useEffect, useState } from "preact/hooks";
import { useApp } from "../app";
import { words } from "../words";
import { Icon } from "./icon";
import { useUpdate } from "./update";

const PATIENCE = 2000; // milliseconds

export function Banner() {
  const app = useApp();
  const line = app.line.value;
  const [isLate, setLate] = useState(false);
  const isOffered = useUpdate();
  const since = "since" in line ? line.since : 0;
  useEffect(() => {
    setLate(false);
    if (line.state === "connected" || line.state === "unpaired") return;
    const timer = setTimeout(() => setLate(true), since === 0 ? PATIENCE : Math.max(0, since + PATIENCE - Date.now()));
    return () => clearTimeout(timer);
  }, [line.state, since]);
  switch (line.state) {
    case "offline":
      return <section class="banner" aria-label={words.frame.line}><Icon name="off" /><span class="grow">{words.frame.offline}</span></section>;
    case "draining":
      return <section class="banner" aria-label={words.frame.line}><Icon name="run" tone="run" /><span class="grow">{words.frame.draining}</span></section>;
    case "connecting":
    case "reconnecting":
      if (!isLate) return null;
      return (
        <section class="banner" aria-label={words.frame.line}>
          <Icon name="run" tone="run" />
          <span class="grow">{line.state === "connecting" ? words.frame.connecting : words.frame.reconnecting}</span>
          <button type="button" class="btn quiet" onClick={() => app.reconnect()}>{words.frame.now}</button>
        </section>
      );
    default:
      if (!isOffered) return null;
      return (
        <section class="banner" aria-label={words.frame.update}>
          <Icon name="alert" />
          <span class="grow">{words.frame.otherVersion}</span>
          <button type="button" class="btn quiet" onClick={() => location.reload()}>{words.frame.update}</button>
        </section>
      );
  }
}
