import { render } from "preact";
import { AppContext, useApp } from "./app";
import { makeApp } from "./store/app";
import { words } from "./words";

function Sessions() {
  const app = useApp();
  return (
    <main>
      <h1>{words.store.sessions}</h1>
      <p>{app.line.value.state}</p>
      <ul>
        {app.rows.value.map((row) => (
          <li key={row.sessionId}>
            {row.title ?? row.sessionId} ({row.own.agent}, {row.own.state})
          </li>
        ))}
      </ul>
    </main>
  );
}

const app = makeApp();
// For the console of the browser: what the page holds, and nothing that it could not do anyway.
Object.defineProperty(globalThis, "dragoman", { value: app.inside });
const place = document.getElementById("app");
if (place !== null) {
  render(
    <AppContext.Provider value={app}>
      <Sessions />
    </AppContext.Provider>,
    place,
  );
}
