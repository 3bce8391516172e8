/** A screen that is loaded when it is needed. */
import type { ComponentType } from "preact";
import { useEffect, useState } from "preact/hooks";
import { words } from "../words";

export function lazy<P extends object>(load: () => Promise<ComponentType<P>>): ComponentType<P> {
  let loaded: ComponentType<P> | null = null;
  return function Lazy(props: P) {
    const [Found, setFound] = useState<ComponentType<P> | null>(() => loaded);
    const [problem, setProblem] = useState("");
    useEffect(() => {
      if (Found !== null) return;
      load().then(
        (component) => {
          loaded = component;
          setFound(() => component);
        },
        (error: unknown) => setProblem(words.frame.failed(String(error))),
      );
    }, []);
    if (problem !== "") return <p class="problem" role="alert">{problem}</p>;
    return Found === null ? null : <Found {...props} />;
  };
}
