/** An icon, and its word for screen readers if no word stands next to it. */
export function Icon({ name, tone, label }: { name: string; tone?: string; label?: string }) {
  return (
    <>
      <span class={`i i-${name}${tone === undefined ? "" : ` is-${tone}`}`} aria-hidden="true" />
      {label !== undefined && <span class="vh">{label}</span>}
    </>
  );
}
