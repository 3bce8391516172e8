/** Whether the host serves another page than the one that runs, and now is a good time to say so. */
import { useEffect, useState } from "preact/hooks";
import { useApp } from "../app";

const LOOK = 1000; // milliseconds
const TYPED = "textarea, input:not([type=checkbox], [type=radio], [type=button], [type=submit]), select[multiple]";

/** The version of the page that runs; the build writes it. */
const own = document.querySelector('meta[name="dragoman-page"]')?.getAttribute("content") ?? "";

/** Whether something is in a field, or is attached, that a user would not want to type again. */
function isTyped(): boolean {
  const fields = document.querySelectorAll<HTMLTextAreaElement | HTMLInputElement>(TYPED);
  return [...fields].some((field) => field.value !== "") || document.querySelector(".att > *") !== null;
}

/** Returns whether to offer that the page is loaded again: never while something is typed. It is never done by itself. */
export function useUpdate(): boolean {
  const page = useApp().host.value?.page ?? null;
  const isOther = page !== null && own !== "" && page !== own;
  const [isFree, setFree] = useState(false);
  useEffect(() => {
    if (!isOther) return;
    const look = () => setFree(!isTyped());
    look();
    // A field is also emptied without an event, when its text was sent.
    const timer = setInterval(look, LOOK);
    addEventListener("input", look);
    return () => {
      clearInterval(timer);
      removeEventListener("input", look);
    };
  }, [isOther]);
  return isOther && isFree;
}
