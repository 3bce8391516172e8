/** The conversation alone, with a fake app: `window.fake` feeds it. Not part of the page. */
import { render } from "preact";
import { useEffect } from "preact/hooks";
import { AppContext } from "../app";
import { listenForKeys } from "../frame/keys";
import { Toasts } from "../frame/toasts";
import { isPhone } from "../frame/width";
import { Conversation } from "../thread/conversation";
import { Fake, SESSION } from "./fake";

const fake = new Fake();
Object.assign(window, { fake });

function Root() {
  useEffect(() => listenForKeys(() => true), []);
  return (
    <AppContext.Provider value={fake.app}>
      <div class={isPhone.value ? "phone" : "app alone"}>
        <Conversation sessionId={SESSION} />
        <Toasts />
      </div>
    </AppContext.Provider>
  );
}

const place = document.getElementById("app");
if (place !== null) render(<Root />, place);
document.documentElement.dataset["ready"] = "yes";
