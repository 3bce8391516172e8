/** The clipboard. On a page without it (plain HTTP) the text is selected in a field that is gone at once. */
export function copy(text: string): Promise<boolean> {
  if (navigator.clipboard !== undefined) {
    return navigator.clipboard.writeText(text).then(
      () => true,
      () => false,
    );
  }
  const field = document.createElement("textarea");
  field.value = text;
  field.className = "vh";
  document.body.append(field);
  const had = document.activeElement;
  field.select();
  const isDone = document.execCommand("copy");
  field.remove();
  if (had instanceof HTMLElement) had.focus();
  return Promise.resolve(isDone);
}
