/** j, k and Enter in lists: the focus moves from row to row. */

function rowsOf(list: HTMLElement | null): HTMLElement[] {
  return list === null ? [] : [...list.querySelectorAll<HTMLElement>("[data-row] a.open")];
}

/** Moves the focus to the next or previous row. */
export function moveInRows(list: HTMLElement | null, step: 1 | -1): unknown {
  const rows = rowsOf(list);
  if (rows.length === 0) return false;
  const around = document.activeElement?.closest("[data-row]") ?? null;
  const at = rows.findIndex((row) => row.closest("[data-row]") === around);
  const next = rows[at < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.min(rows.length - 1, Math.max(0, at + step))];
  next?.focus();
  next?.closest("[data-row]")?.scrollIntoView({ block: "nearest" });
  return true;
}

/** Opens the row with the focus; a control in it keeps its own Enter. */
export function openRow(): unknown {
  const active = document.activeElement;
  if (!(active instanceof HTMLElement) || active.matches("a, button, select, summary")) return false;
  const link = active.closest("[data-row]")?.querySelector<HTMLAnchorElement>("a.open");
  if (link == null) return false;
  link.click();
  return true;
}
