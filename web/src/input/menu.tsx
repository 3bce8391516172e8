/** A button that opens a list of choices; arrows move, Enter chooses, Esc closes and gives the focus back. */
import { useEffect, useRef, useState } from "preact/hooks";
import { Icon } from "../frame/icon";
import { Plain } from "../render/Plain";

export interface Choice {
  id: string;
  name: string;
  description?: string | undefined;
  group?: string | undefined;
  isCurrent?: boolean;
  /** The sentence is shown, and a second press is needed. */
  warning?: string | undefined;
  /** The agent acts without asking. */
  isAmber?: boolean | undefined;
}

interface Props {
  label: string;
  /** The word on the button; left out for a button that is an icon. */
  text?: string;
  icon?: string;
  look: string;
  side?: string;
  isAmber?: boolean;
  isBusy?: boolean;
  choices: readonly Choice[];
  onChoose: (id: string) => void;
}

export function Menu({ label, text, icon, look, side = "above", isAmber = false, isBusy = false, choices, onChoose }: Props) {
  const [isOpen, setOpen] = useState(false);
  const [sure, setSure] = useState<string | null>(null);
  const around = useRef<HTMLDivElement>(null);
  const button = useRef<HTMLButtonElement>(null);
  const close = (): void => {
    setOpen(false);
    setSure(null);
    button.current?.focus();
  };
  useEffect(() => {
    if (!isOpen) return;
    const items = around.current?.querySelectorAll<HTMLElement>("[role^=menuitem]");
    const current = around.current?.querySelector<HTMLElement>("[aria-checked=true]");
    (current ?? items?.[0])?.focus();
    const outside = (event: Event): void => {
      if (event.target instanceof Node && around.current?.contains(event.target) === false) {
        setOpen(false);
        setSure(null);
      }
    };
    document.addEventListener("pointerdown", outside, true);
    return () => document.removeEventListener("pointerdown", outside, true);
  }, [isOpen]);
  const onKey = (event: KeyboardEvent): void => {
    const items = [...(around.current?.querySelectorAll<HTMLElement>("[role^=menuitem]") ?? [])];
    const at = items.indexOf(document.activeElement as HTMLElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1 + items.length, Home: 0, End: items.length - 1 }[event.key];
    if (event.key === "Escape") close();
    else if (event.key === "Tab") return setOpen(false);
    else if (to !== undefined) items[to % items.length]?.focus();
    else return;
    event.preventDefault();
    event.stopPropagation();
  };
  const choose = (choice: Choice): void => {
    if (choice.warning !== undefined && choice.isCurrent !== true && sure !== choice.id) return setSure(choice.id);
    close();
    if (choice.isCurrent !== true) onChoose(choice.id);
  };
  const isRadio = choices.some((choice) => choice.isCurrent !== undefined);
  let group: string | undefined;
  return (
    <div class="menuhold" ref={around}>
      <button type="button" class={`${look}${isAmber ? " amber" : ""}`} ref={button} aria-haspopup="menu" aria-expanded={isOpen} aria-busy={isBusy} aria-label={text === undefined ? label : `${label}: ${text}`} onClick={() => setOpen(!isOpen)}>
        {icon !== undefined && <Icon name={icon} />}
        {text !== undefined && <><span class="cut"><Plain text={text} /></span><Icon name="down" /></>}
      </button>
      {isOpen && (
        <div class={`menu ${side}`} role="menu" aria-label={label} onKeyDown={onKey}>
          {choices.map((choice) => {
            const isNew = choice.group !== undefined && choice.group !== group;
            group = choice.group;
            return (
              <>
                {isNew && <p class="menugroup xs faint" role="presentation"><Plain text={choice.group ?? ""} /></p>}
                <button
                  type="button"
                  class={`item${choice.isAmber === true ? " amber" : ""}`}
                  tabIndex={-1}
                  role={isRadio ? "menuitemradio" : "menuitem"}
                  {...(isRadio ? { "aria-checked": choice.isCurrent === true } : {})}
                  onClick={() => choose(choice)}
                >
                  <span class="row"><span class="grow" dir="auto"><Plain text={choice.name} /></span>{choice.isCurrent === true && <Icon name="check" />}</span>
                  {choice.description && <small dir="auto"><Plain text={choice.description} /></small>}
                  {choice.warning !== undefined && (choice.isCurrent === true || sure === choice.id) && <small class="sure">{choice.warning}</small>}
                </button>
              </>
            );
          })}
        </div>
      )}
    </div>
  );
}
