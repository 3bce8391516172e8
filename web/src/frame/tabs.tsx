/** The tab bar of phones. */
import { useApp } from "../app";
import { words } from "../words";
import { Icon } from "./icon";
import { place } from "./router";

const TABS = [
  { names: ["inbox"], path: "/inbox", icon: "inbox", label: words.frame.inbox },
  { names: ["board", "new"], path: "/", icon: "board", label: words.frame.sessions },
  { names: ["settings", "devices"], path: "/settings", icon: "sliders", label: words.frame.settings },
];

export function TabBar() {
  const count = useApp().questions.value.length;
  return (
    <nav class="tabs" aria-label={words.frame.main}>
      {TABS.map((tab) => (
        <a key={tab.path} href={`#${tab.path}`} {...(tab.names.includes(place.value.name) ? { "aria-current": "page" as const } : {})}>
          <Icon name={tab.icon} />
          {tab.path === "/inbox" && count > 0 && <span class="dotc num">{count}</span>}
          {tab.label}
        </a>
      ))}
    </nav>
  );
}
